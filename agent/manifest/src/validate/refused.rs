//! Fields that this agent does not support, and those with which a static pod would name objects of the API
//! server (kubelet `HasAPIObjectReference`). Pods that set them are refused: started without them, they would
//! not be what their authors wrote. Environment and volumes refuse theirs themselves (`env`, `volumes`).

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::report::Report;
use crate::volume_source::Source;

pub(super) fn pod(spec: &PodSpec, report: &mut Report) {
    for (field, account) in [
        ("spec.serviceAccountName", &spec.service_account_name),
        ("spec.serviceAccount", &spec.service_account),
    ] {
        if let Some(account) = account.as_deref().filter(|account| !account.is_empty()) {
            report.object(field, account, "service accounts");
        }
    }
    if let Some(class) = spec.runtime_class_name.as_deref().filter(|class| !class.is_empty()) {
        report.object("spec.runtimeClassName", class, "runtime classes");
    }
    if spec.host_users == Some(false) {
        let expected = "must be true or left out: this agent creates no user namespaces for pods";
        report.add("spec.hostUsers", "false", expected);
    }
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        report.object(format!("spec.imagePullSecrets[{index}]"), &secret.name, "secrets");
    }
    for (index, claim) in spec.resource_claims.iter().flatten().enumerate() {
        let expected = "must not be used: this agent allocates no resource claims";
        report.add(format!("spec.resourceClaims[{index}]"), &claim.name, expected);
    }
    if !report.is_api() {
        only_in_a_cluster(spec, report);
    }
    if let Some(os) = spec.os.as_ref().filter(|os| os.name != "linux") {
        report.add("spec.os.name", &os.name, "must be linux");
    }
    let windows = |options: Option<&_>| options.is_some();
    if windows(spec.security_context.as_ref().and_then(|c| c.windows_options.as_ref())) {
        report.add("spec.securityContext.windowsOptions", "", "must not be set: this is Linux");
    }
}

/// What means nothing where the pod's object cannot be changed.
fn only_in_a_cluster(spec: &PodSpec, report: &mut Report) {
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let expected = "needs a cluster: the agent does not set the condition";
        report.add(format!("spec.readinessGates[{index}]"), &gate.condition_type, expected);
    }
    for (index, gate) in spec.scheduling_gates.iter().flatten().enumerate() {
        let expected = "needs a cluster: the agent does not remove the gate";
        report.add(format!("spec.schedulingGates[{index}]"), &gate.name, expected);
    }
    if let Some(seconds) = spec.active_deadline_seconds {
        let expected = "must not be set: the agent ends no pod of a manifest by its age";
        report.add("spec.activeDeadlineSeconds", seconds.to_string(), expected);
    }
}

/// Devices and claims of a container.
pub(super) fn container(container: &Container, place: &str, report: &mut Report) {
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let expected = "must not be used: this agent maps no block volumes";
        report.add(format!("{place}.volumeDevices[{index}]"), &device.name, expected);
    }
    let claims = container.resources.as_ref().and_then(|resources| resources.claims.as_deref());
    for (index, claim) in claims.unwrap_or_default().iter().enumerate() {
        let expected = "must not be used: this agent allocates no resource claims";
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
                _ => {
                    "must not be used: this agent provides emptyDir, hostPath, downwardAPI, configMap, secret, \
                     projected, and claims of hostPath and local volumes"
                }
            };
            report.add(format!("{place}.{kind}"), "", expected);
        }
    }
    refused
}
