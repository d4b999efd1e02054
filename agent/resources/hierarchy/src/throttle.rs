//! Overrides of the QoS levels' own limits: how lower levels are throttled while higher ones wait for a
//! resource.
//!
//! An override can only reduce a limit, and is reconciled like any other limit. The first reconcile without
//! the override restores the level's own limit; after a crash the next agent does so.

use std::sync::Arc;

use nodewarden_machine::cgroup::control::{Bound, CpuQuota, DriverKind, Limits, Manager};
use nodewarden_qos::HierarchyFacts;

/// The levels that can be throttled, and by which means.
#[derive(Debug, Clone)]
pub struct ThrottleTargets {
    /// Reads and writes the cgroups.
    pub manager: Arc<Manager>,
    /// Path of the BestEffort cgroup.
    pub best_effort: String,
    /// Path of the Burstable cgroup.
    pub burstable: String,
    /// The levels exist (`cgroupsPerQOS`).
    pub levels: bool,
    /// `cpu.idle` can be set.
    pub idle: bool,
    /// `memory.high` exists: cgroup v2.
    pub memory_high: bool,
}

/// The reduced limits of one level; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThrottleOverride {
    /// Runs only when nothing else does (`cpu.idle`).
    pub cpu_idle: bool,
    /// CPU bandwidth limit.
    pub cpu_quota: Option<CpuQuota>,
    /// `memory.high` in bytes; v2 only.
    pub memory_high: Option<u64>,
}

/// The overrides of both levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThrottleOverrides {
    /// Of BestEffort.
    pub best_effort: ThrottleOverride,
    /// Of Burstable. Its `memory.high` is never below the sum of its pods' requests.
    pub burstable: ThrottleOverride,
}

impl ThrottleOverride {
    /// Reduces a level's own limits; limits that have no file there are left alone.
    pub(super) fn apply(&self, limits: &mut Limits) {
        if self.cpu_idle {
            // An idle cgroup accepts no weight, and shows one that was not written (sched_group_set_idle).
            (limits.cpu_idle, limits.cpu) = (Some(true), None);
        }
        let free = |own: CpuQuota| own.quota_us == Bound::Max;
        if let Some(quota) = self.cpu_quota.filter(|_| limits.cpu_quota.is_some_and(free)) {
            limits.cpu_quota = Some(quota);
        }
        if let Some(high) = self.memory_high {
            limits.memory_high = limits.memory_high.map(|own| own.min(Bound::At(high)));
        }
    }
}

/// Whether the levels can be made idle and restored. On v1, systemd would write the shares of an idle cgroup,
/// which the kernel refuses.
pub fn can_idle(facts: &HierarchyFacts, driver: DriverKind) -> bool {
    facts.cpu_idle && (facts.v2() || driver == DriverKind::Cgroupfs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_machine::cgroup::control::CpuShare;

    fn own() -> Limits {
        Limits {
            cpu: Some(CpuShare::Shares(2)),
            cpu_quota: Some(CpuQuota { quota_us: Bound::Max, period_us: 100_000 }),
            cpu_idle: Some(false),
            memory_high: Some(Bound::At(1000)),
            ..Limits::default()
        }
    }

    #[test]
    fn overrides_only_reduce_limits() {
        let mut limits = own();
        ThrottleOverride::default().apply(&mut limits);
        assert_eq!(limits, own());
        let quota = CpuQuota { quota_us: Bound::At(5000), period_us: 20_000 };
        let all = ThrottleOverride { cpu_idle: true, cpu_quota: Some(quota), memory_high: Some(2000) };
        all.apply(&mut limits);
        let expected = Limits { cpu: None, cpu_idle: Some(true), cpu_quota: Some(quota), ..own() };
        assert_eq!(limits, expected, "a memory.high of its own that is lower stays");
        ThrottleOverride { memory_high: Some(500), ..ThrottleOverride::default() }.apply(&mut limits);
        assert_eq!(limits.memory_high, Some(Bound::At(500)));
    }

    #[test]
    fn limits_without_a_file_are_not_set() {
        let mut limits = Limits { memory_high: None, cpu_quota: None, ..own() };
        let quota = CpuQuota { quota_us: Bound::At(5000), period_us: 20_000 };
        ThrottleOverride { cpu_idle: false, cpu_quota: Some(quota), memory_high: Some(1) }.apply(&mut limits);
        assert_eq!((limits.memory_high, limits.cpu_quota), (None, None));
    }
}
