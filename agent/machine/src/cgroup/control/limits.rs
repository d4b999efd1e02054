//! The limits of one cgroup, in terms that v1, v2 and systemd share.

use super::{Bound, CpuQuota, HugePageLimits};
use crate::cgroup::Controller;

/// The controllers of these limits.
pub const LIMITED: [Controller; 5] =
    [Controller::Cpu, Controller::Cpuset, Controller::Memory, Controller::Pids, Controller::Hugetlb];

/// Limits of one cgroup. `None` means "not set" to a writer; a reader returns it if the controller is missing
/// or this version of cgroups lacks the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The share of the CPU among siblings.
    pub cpu: Option<CpuShare>,
    /// CPU time per period: `cpu.max`, v1 `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    pub cpu_quota: Option<CpuQuota>,
    /// v2 `cpu.idle`.
    pub cpu_idle: Option<bool>,
    /// CPUs as a list (`0-3,7`); the empty list on v2 means the parent's CPUs.
    pub cpuset_cpus: Option<String>,
    /// Bytes: `memory.max`, v1 `memory.limit_in_bytes`.
    pub memory_max: Option<Bound>,
    /// v2, bytes.
    pub memory_min: Option<u64>,
    /// v2, bytes.
    pub memory_low: Option<u64>,
    /// v2, bytes.
    pub memory_high: Option<Bound>,
    /// v2 `memory.swap.max`, bytes of swap alone.
    pub swap_max: Option<Bound>,
    /// v1 `memory.memsw.limit_in_bytes`, bytes of memory and swap together.
    pub memsw_max: Option<Bound>,
    /// v2 `memory.oom.group`.
    pub oom_group: Option<bool>,
    /// Number of processes: `pids.max`.
    pub pids_max: Option<Bound>,
    /// Bytes for each page size.
    pub hugetlb: HugePageLimits,
}

/// A cgroup's share of the CPU among its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuShare {
    /// In v1's unit (2 to 262,144). On v2 it is written as the weight of the linear formula, as the kubelet
    /// does for its own levels.
    Shares(u64),
    /// In v2's unit (1 to 10,000), already converted: the form in which a v2 cgroup is read, and for
    /// containers whose runtime uses another formula.
    Weight(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of every pod are held.
    #[test]
    fn limits_are_small() {
        assert!(size_of::<Limits>() <= 224, "{}", size_of::<Limits>());
    }
}
