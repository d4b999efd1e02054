//! Fields that this agent does not support, most of them because they need a cluster. Pods that set them are
//! refused: started without them, they would not be what their authors wrote.

use k8s_openapi::api::core::v1::{PodSpec, Volume};

use super::report::Report;
use crate::volume_source::Source;

const SECRETS: &str = "needs a cluster: there are no secrets here";
const CONFIG_MAPS: &str = "needs a cluster: there are no config maps here";

pub(super) fn pod(spec: &PodSpec, report: &mut Report) {
    for (field, account) in [
        ("spec.serviceAccountName", &spec.service_account_name),
        ("spec.serviceAccount", &spec.service_account),
    ] {
        if let Some(account) = account.as_deref().filter(|account| !account.is_empty()) {
            report.add(field, account, "must not be set: service accounts need a cluster");
        }
    }
    if let Some(class) = spec.runtime_class_name.as_deref().filter(|class| !class.is_empty()) {
        report.add("spec.runtimeClassName", class, "must not be set: runtime classes need a cluster");
    }
    if spec.host_users == Some(false) {
        let expected = "must be true or left out: this agent creates no user namespaces for pods";
        report.add("spec.hostUsers", "false", expected);
    }
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        report.add(format!("spec.imagePullSecrets[{index}]"), &secret.name, SECRETS);
    }
    for (index, claim) in spec.resource_claims.iter().flatten().enumerate() {
        let expected = "needs a cluster: resource claims are the API server's";
        report.add(format!("spec.resourceClaims[{index}]"), &claim.name, expected);
    }
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let expected = "needs a cluster: the agent does not set the condition";
        report.add(format!("spec.readinessGates[{index}]"), &gate.condition_type, expected);
    }
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let expected = "needs a cluster: the agent does not remove the gate";
        report.add(format!("spec.schedulingGates[{index}]"), &gate.name, expected);
    }
    if let Some(seconds) = spec.active_deadline_seconds {
        let expected = "must not be set: the agent ends no pod by its age";
        report.add("spec.activeDeadlineSeconds", seconds.to_string(), expected);
    }
    if let Some(os) = spec.os.as_ref().filter(|os| os.name != "linux") {
        report.add("spec.os.name", &os.name, "must be linux");
    }
    let windows = |options: Option<&_>| options.is_some();
    if windows(spec.security_context.as_ref().and_then(|c| c.windows_options.as_ref())) {
        report.add("spec.securityContext.windowsOptions", "", "must not be set: this is Linux");
    }
}

/// The parts of a container's environment that come from a cluster.
pub(super) fn environment(
    container: &k8s_openapi::api::core::v1::Container,
    place: &str,
    report: &mut Report,
) {
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        let place = format!("{place}.envFrom[{index}]");
        match (&source.config_map_ref, &source.secret_ref) {
            (Some(map), _) => report.add(format!("{place}.configMapRef"), &map.name, CONFIG_MAPS),
            (None, Some(secret)) => report.add(format!("{place}.secretRef"), &secret.name, SECRETS),
            (None, None) => {
                report.add(place, "", "must have configMapRef or secretRef, which need a cluster");
            }
        }
    }
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let Some(source) = &variable.value_from else { continue };
        let place = format!("{place}.env[{index}].valueFrom");
        if let Some(map) = &source.config_map_key_ref {
            report.add(format!("{place}.configMapKeyRef"), &map.name, CONFIG_MAPS);
        }
        if let Some(secret) = &source.secret_key_ref {
            report.add(format!("{place}.secretKeyRef"), &secret.name, SECRETS);
        }
        if let Some(file) = &source.file_key_ref {
            let expected = "must not be set: this agent reads no variables from files";
            report.add(format!("{place}.fileKeyRef"), &file.key, expected);
        }
    }
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let expected = "needs a cluster: block volumes are persistent volume claims";
        report.add(format!("{place}.volumeDevices[{index}]"), &device.name, expected);
    }
    let claims = container.resources.as_ref().and_then(|resources| resources.claims.as_deref());
    for (index, claim) in claims.unwrap_or_default().iter().enumerate() {
        let expected = "needs a cluster: resource claims are the API server's";
        report.add(format!("{place}.resources.claims[{index}]"), &claim.name, expected);
    }
}

/// Reports a volume of a kind that this agent does not provide. Returns whether it is one.
pub(super) fn volume(volume: &Volume, place: &str, report: &mut Report) -> bool {
    let refused = Source::of(volume).is_none();
    if refused {
        // The kinds are the names of the manifest's fields.
        let kinds = serde_json::to_value(volume).unwrap_or_default();
        let kinds = kinds.as_object().into_iter().flatten().filter(|(name, _)| *name != "name");
        for (kind, _) in kinds {
            let expected = match kind.as_str() {
                "image" => "must not be used: this agent mounts no images as volumes",
                "gitRepo" => "must not be used: gitRepo volumes are gone from Kubernetes",
                _ => "needs a cluster: this agent provides emptyDir, hostPath and downwardAPI",
            };
            report.add(format!("{place}.{kind}"), "", expected);
        }
    }
    refused
}
