//! Which devices a pod may open: decided from its manifest, from the plugins' answers for the devices that it
//! got, and from the configuration. Pure.
//!
//! The runtime restricts each container to its own devices; this policy is about the pod as a whole, and
//! applies whatever the runtime allows. Creating a device node (mknod) is never refused: only opening it
//! matters, and runtimes allow mknod too.

mod access;
mod rules;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use rules::{defaults, rules};

use nodewarden_config::{DeviceSettings, Enforcement};
use nodewarden_manifest::Pod;
use nodewarden_model::HostDeviceKind;

/// Allowed accesses to one device, or to all devices of a major number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceRule {
    pub kind: HostDeviceKind,
    pub major: u32,
    /// `None` for every minor number.
    pub minor: Option<u32>,
    pub access: Access,
}

/// The device policy of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPolicy {
    /// `Off`: everything is allowed.
    pub mode: Enforcement,
    /// What the pod may open in addition to the [`defaults`], which every pod has.
    pub rules: Vec<DeviceRule>,
    /// Which other accesses are found out.
    pub scope: Scope,
}

/// The devices about which a policy says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All: what no rule allows is found out.
    Everything,
    /// Those that are watched: of others nothing is said.
    Watched,
}

/// The enforcement mode for a pod: pods with a privileged container have a mode of their own.
pub fn mode(pod: &Pod, settings: &DeviceSettings) -> Enforcement {
    let spec = pod.spec();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let privileged =
        |c: &k8s_openapi::api::core::v1::Container| c.security_context.as_ref().and_then(|s| s.privileged);
    if containers.filter_map(privileged).any(|privileged| privileged) {
        settings.privileged_enforcement
    } else {
        settings.enforcement
    }
}
