//! The facts about the node that the configuration of pods depends on.

use std::net::IpAddr;
use std::path::Path;

use super::dns::Resolv;
use crate::paths::PodPaths;
use nodewarden_config::PodSettings;
use nodewarden_manifest::Pod;
use nodewarden_qos::Node;

/// The node for which pods are configured.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The node's reserved and allocatable resources and the settings of its cgroups.
    pub node: Node<'a>,
    /// Name of the node in `spec.nodeName` and `fieldRef`s.
    pub node_name: &'a str,
    /// The node's addresses, the preferred one first.
    pub host_ips: &'a [IpAddr],
    /// The settings of pods: DNS, log directory, seccomp default.
    pub pods: &'a PodSettings,
    /// `resolvConf`, parsed ([`super::dns::Resolv::read`]).
    pub resolv: &'a Resolv,
    /// Value of the label [`super::OWNER`].
    pub owner: &'a str,
    /// `<state>/pods`.
    pub state_pods: &'a Path,
    /// Profiles of `seccompProfile.localhostProfile` are below this directory.
    pub seccomp_root: &'a Path,
    /// Whether the runtime can mount read-only recursively: CRI
    /// `RuntimeHandlerFeatures.recursive_read_only_mounts`.
    pub recursive_read_only: bool,
}

impl Host<'_> {
    /// The paths of the pod's files.
    pub fn paths(&self, pod: &Pod) -> PodPaths {
        PodPaths::new(self.state_pods, &self.pods.logs_dir, pod)
    }
}
