//! Which devices a pod may open: decided from its manifest, from what plugins said of the devices that it was given, and
//! from the configuration. Pure.
//!
//! The runtime keeps each container to its own devices; this is about the pod as a whole, and holds whatever the runtime
//! allows. Making a device node (mknod) is never refused: only opening it counts, and runtimes allow it too.

mod access;
mod rules;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use rules::{defaults, rules};

use nodewarden_config::{DeviceSettings, Enforcement};
use nodewarden_manifest::Pod;
use nodewarden_model::HostDeviceKind;

/// Accesses to one device, or to all of a major number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceRule {
    pub kind: HostDeviceKind,
    pub major: u32,
    /// `None` for every minor number.
    pub minor: Option<u32>,
    pub access: Access,
}

/// What a pod is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPolicy {
    /// `Off`: everything is allowed.
    pub mode: Enforcement,
    /// What it may open beside the [`defaults`], which every pod has.
    pub rules: Vec<DeviceRule>,
}

/// The mode for a pod: pods with a privileged container have one of their own.
pub fn mode(pod: &Pod, settings: &DeviceSettings) -> Enforcement {
    let containers = pod.spec.init_containers.iter().flatten().chain(&pod.spec.containers);
    let privileged =
        |c: &k8s_openapi::api::core::v1::Container| c.security_context.as_ref().and_then(|s| s.privileged);
    if containers.filter_map(privileged).any(|privileged| privileged) {
        settings.privileged_enforcement
    } else {
        settings.enforcement
    }
}
