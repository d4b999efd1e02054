//! Limits laid over what the pods' levels want: how the levels below are held back while those above wait.
//!
//! What is laid over only ever takes room away, and is kept like any other limit: a reconcile writes it again. What it
//! takes away comes back with the next turn without it; an agent that dies leaves its successor to write the tree's own.

use super::entry::Limit;
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, DriverKind, Limits};
use nodewarden_qos::HierarchyFacts;

/// What one level is held to; nothing by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Squeeze {
    /// Runs only where nobody else wants to (`cpu.idle`).
    pub cpu_idle: bool,
    pub cpu_quota: Option<CpuQuota>,
    /// `memory.high` in bytes: v2.
    pub memory_high: Option<u64>,
}

/// What each level is held to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlay {
    pub best_effort: Squeeze,
    /// Its `memory.high` is never below what its pods request together.
    pub burstable: Squeeze,
}

impl Squeeze {
    /// Narrows a level's own limits; what its files cannot say stays as it is.
    pub(super) fn lay_over(&self, limits: &mut Limits) {
        if self.cpu_idle {
            // An idle cgroup takes no weight, and shows one that nobody has set (sched_group_set_idle).
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

    /// Whether it is this that holds the limit down.
    pub(super) fn holds(&self, limit: Limit) -> bool {
        match limit {
            Limit::CpuIdle => self.cpu_idle,
            Limit::CpuQuota => self.cpu_quota.is_some(),
            Limit::MemoryHigh => self.memory_high.is_some(),
            _ => false,
        }
    }
}

/// Whether the levels can be made idle and be put back. On v1 systemd would write the shares of an idle cgroup, which the
/// kernel refuses.
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
    fn it_only_takes_away() {
        let mut limits = own();
        Squeeze::default().lay_over(&mut limits);
        assert_eq!(limits, own());
        let quota = CpuQuota { quota_us: Bound::At(5000), period_us: 20_000 };
        let all = Squeeze { cpu_idle: true, cpu_quota: Some(quota), memory_high: Some(2000) };
        all.lay_over(&mut limits);
        let expected = Limits { cpu: None, cpu_idle: Some(true), cpu_quota: Some(quota), ..own() };
        assert_eq!(limits, expected, "a memory.high of its own that is lower stays");
        Squeeze { memory_high: Some(500), ..Squeeze::default() }.lay_over(&mut limits);
        assert_eq!(limits.memory_high, Some(Bound::At(500)));
    }

    #[test]
    fn what_cannot_be_said_is_not_said() {
        let mut limits = Limits { memory_high: None, cpu_quota: None, ..own() };
        let quota = CpuQuota { quota_us: Bound::At(5000), period_us: 20_000 };
        Squeeze { cpu_idle: false, cpu_quota: Some(quota), memory_high: Some(1) }.lay_over(&mut limits);
        assert_eq!((limits.memory_high, limits.cpu_quota), (None, None));
    }
}
