//! A container's limits, as CRI has them.

use nodewarden_proto::runtime::v1 as cri;

use super::Host;
use crate::pod::{Container, Pod};
use crate::qos::{ContainerParameters, container};

/// What is said of one of the pod's containers, at its start and at an in-place resize.
pub fn container_resources(pod: &Pod, container: &Container, host: &Host) -> cri::LinuxContainerResources {
    resources(&container::parameters(pod, container, host.node))
}

/// The same in CRI's form. What is not told is zero.
pub fn resources(told: &ContainerParameters) -> cri::LinuxContainerResources {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let or_zero = |n: Option<u64>| n.map_or(0, signed);
    cri::LinuxContainerResources {
        cpu_period: or_zero(told.cpu_period),
        cpu_quota: or_zero(told.cpu_quota),
        cpu_shares: signed(told.cpu_shares),
        memory_limit_in_bytes: or_zero(told.memory_limit_in_bytes),
        oom_score_adj: told.oom_score_adj.map_or(0, i64::from),
        cpuset_cpus: String::new(),
        cpuset_mems: String::new(),
        // Sizes as the cgroup files' names have them: `2MB`, `1GB`.
        hugepage_limits: told
            .hugepage_limits
            .iter()
            .map(|(size, limit)| cri::HugepageLimit { page_size: size.to_string(), limit: *limit })
            .collect(),
        unified: told.unified.iter().map(|(file, value)| (file.clone(), value.clone())).collect(),
        memory_swap_limit_in_bytes: or_zero(told.memory_swap_limit_in_bytes),
    }
}
