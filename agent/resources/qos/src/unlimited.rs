//! A cgroup without any limit, with every field set: a limit that was removed has to be reset like any other
//! value.

use super::Node;
use super::cpu::{DEFAULT_PERIOD_US, MIN_SHARES};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, CpuShare, HugePageLimits, Limits};

/// Limits without effect, with the minimum share of the CPU. Fields whose file this machine lacks are `None`,
/// and huge pages are set by the caller.
pub(super) fn unlimited(node: Node<'_>) -> Limits {
    let facts = node.facts;
    let v2 = facts.v2();
    Limits {
        cpu: Some(CpuShare::Shares(MIN_SHARES)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::Max, period_us: DEFAULT_PERIOD_US }),
        cpu_idle: (v2 && facts.cpu_idle).then_some(false),
        cpuset_cpus: facts.cpuset.then(|| inherited_cpus(node)),
        memory_max: Some(Bound::Max),
        memory_min: v2.then_some(0),
        memory_low: v2.then_some(0),
        memory_high: v2.then_some(Bound::Max),
        swap_max: (v2 && facts.swap).then_some(Bound::Max),
        memsw_max: (!v2 && facts.swap).then_some(Bound::Max),
        oom_group: (v2 && facts.oom_group).then_some(false),
        pids_max: facts.pids.then_some(Bound::Max),
        hugetlb: HugePageLimits::default(),
    }
}

/// On v2 an empty value means the parent's CPUs; on v1 a cgroup without CPUs could not run anything.
fn inherited_cpus(node: Node<'_>) -> String {
    if node.facts.v2() { String::new() } else { node.capacity.cpus.clone() }
}
