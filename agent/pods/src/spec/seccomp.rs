//! Seccomp and AppArmor profiles (kubelet kuberuntime/helpers.go).

use k8s_openapi::api::core::v1;
use nodewarden_proto::runtime::v1::{SecurityProfile, security_profile::ProfileType};

use super::{Host, SpecError};
use nodewarden_manifest::Pod;

/// The annotation for AppArmor profiles from before the field existed; the API server still converts it.
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

fn profile(kind: ProfileType, localhost: String) -> SecurityProfile {
    SecurityProfile { profile_type: kind.into(), localhost_ref: localhost }
}

/// The profile RuntimeDefault, which every sandbox has.
pub(super) fn runtime_default() -> SecurityProfile {
    profile(ProfileType::RuntimeDefault, String::new())
}

/// The seccomp profile of the container, else that of the pod, else the one set by `seccompDefault`.
pub(super) fn seccomp(
    pod: &Pod,
    container: &v1::Container,
    host: &Host,
) -> Result<SecurityProfile, SpecError> {
    let own = container.security_context.as_ref().and_then(|c| c.seccomp_profile.as_ref());
    let spec = pod.spec();
    let of_pod = spec.security_context.as_ref().and_then(|c| c.seccomp_profile.as_ref());
    let Some(said) = own.or(of_pod) else {
        let kind =
            if host.pods.seccomp_default { ProfileType::RuntimeDefault } else { ProfileType::Unconfined };
        return Ok(profile(kind, String::new()));
    };
    match said.type_.as_str() {
        "RuntimeDefault" => Ok(runtime_default()),
        "Unconfined" => Ok(profile(ProfileType::Unconfined, String::new())),
        "Localhost" => {
            let file = said.localhost_profile.as_deref().filter(|file| !file.is_empty());
            let file = file.ok_or(SpecError::SeccompProfileMissing)?;
            Ok(profile(ProfileType::Localhost, host.seccomp_root.join(file).display().to_string()))
        }
        kind => Err(SpecError::SeccompType { kind: kind.to_owned() }),
    }
}

/// The AppArmor profile of the container, else that of the pod, else that of the annotation; with `None` the
/// runtime chooses.
pub(super) fn apparmor(pod: &Pod, container: &v1::Container) -> Result<Option<SecurityProfile>, SpecError> {
    let own = container.security_context.as_ref().and_then(|c| c.app_armor_profile.as_ref());
    let spec = pod.spec();
    let of_pod = spec.security_context.as_ref().and_then(|c| c.app_armor_profile.as_ref());
    let (kind, file) = if let Some(said) = own.or(of_pod) {
        (said.type_.as_str(), said.localhost_profile.as_deref().unwrap_or_default())
    } else if let Some(text) = pod.annotations.get(&format!("{APPARMOR_ANNOTATION}{}", container.name)) {
        match text.as_str() {
            "" => return Ok(None),
            "runtime/default" => ("RuntimeDefault", ""),
            "unconfined" => ("Unconfined", ""),
            text => text.strip_prefix("localhost/").map_or((text, ""), |file| ("Localhost", file)),
        }
    } else {
        return Ok(None);
    };
    let profile = match kind {
        "RuntimeDefault" => runtime_default(),
        "Unconfined" => profile(ProfileType::Unconfined, String::new()),
        "Localhost" => profile(ProfileType::Localhost, file.to_owned()),
        kind => return Err(SpecError::AppArmorType { kind: kind.to_owned() }),
    };
    Ok(Some(profile))
}
