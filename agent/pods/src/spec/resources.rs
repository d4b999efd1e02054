//! A container's limits in CRI's form.

use nodewarden_proto::runtime::v1 as cri;

use super::Host;
use nodewarden_manifest::{Container, Pod};
use nodewarden_qos::{ContainerParameters, container};

/// The limits of one of the pod's containers, for its start and for an in-place resize.
pub fn container_resources(pod: &Pod, container: &Container, host: &Host) -> cri::LinuxContainerResources {
    resources(&container::parameters(pod, container, host.node))
}

/// Converts limits into CRI's form. Values that are not set are zero.
pub fn resources(parameters: &ContainerParameters) -> cri::LinuxContainerResources {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let or_zero = |n: Option<u64>| n.map_or(0, signed);
    cri::LinuxContainerResources {
        cpu_period: or_zero(parameters.cpu_period),
        cpu_quota: or_zero(parameters.cpu_quota),
        cpu_shares: signed(parameters.cpu_shares),
        memory_limit_in_bytes: or_zero(parameters.memory_limit_in_bytes),
        oom_score_adj: parameters.oom_score_adj.map_or(0, i64::from),
        cpuset_cpus: String::new(),
        cpuset_mems: String::new(),
        // Sizes are written as in names of cgroup files: `2MB`, `1GB`.
        hugepage_limits: parameters
            .hugepage_limits
            .iter()
            .map(|(size, limit)| cri::HugepageLimit { page_size: size.to_string(), limit: *limit })
            .collect(),
        unified: parameters.unified.iter().map(|(file, value)| (file.clone(), value.clone())).collect(),
        memory_swap_limit_in_bytes: or_zero(parameters.memory_swap_limit_in_bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use nodewarden_machine::cgroup::control::PageSize;

    #[test]
    fn every_field_is_converted() {
        let parameters = ContainerParameters {
            cpu_period: Some(1),
            cpu_quota: Some(2),
            cpu_shares: 3,
            memory_limit_in_bytes: Some(4),
            memory_swap_limit_in_bytes: Some(5),
            oom_score_adj: Some(-6),
            hugepage_limits: BTreeMap::from([(PageSize(2 << 20), 7), (PageSize(1 << 30), 0)]),
            unified: BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]),
        };
        let page = |size: &str, limit| cri::HugepageLimit { page_size: size.to_owned(), limit };
        let expected = cri::LinuxContainerResources {
            cpu_period: 1,
            cpu_quota: 2,
            cpu_shares: 3,
            memory_limit_in_bytes: 4,
            memory_swap_limit_in_bytes: 5,
            oom_score_adj: -6,
            hugepage_limits: vec![page("2MB", 7), page("1GB", 0)],
            unified: [("memory.oom.group".to_owned(), "1".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(resources(&parameters), expected);
        let nothing = ContainerParameters { cpu_shares: 2, ..Default::default() };
        assert_eq!(resources(&nothing), cri::LinuxContainerResources { cpu_shares: 2, ..Default::default() });
    }
}
