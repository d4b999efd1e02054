//! The limits that systemd writes to the files when others are set.

use super::super::{Bound, CpuQuota, Limits};

/// The step of a quota in microseconds per second: a unit's file has whole percentages of a CPU.
const PERCENT_US: u128 = 10_000;
const SECOND_US: u128 = 1_000_000;
/// The shortest period and the shortest quota (`cgroup_cpu_adjust_period`, kernel: `min_cfs_quota_period`).
const SHORTEST_US: u64 = 1_000;
/// The longest period.
const LONGEST_US: u64 = 1_000_000;

/// The largest number that `pids.max` accepts on 64 bits.
const MOST_TASKS: u64 = 4 << 20;

/// CPU time per second in microseconds, as `CPUQuotaPerSecUSec` is set: rounded up to the next 10 ms. systemd
/// would cut the rest off at the next `daemon-reload`, and children would have more than their parent.
pub fn quota_per_second(quota_us: u64, period_us: u64) -> u64 {
    let period = u128::from(period_us.max(1));
    let exact = u128::from(quota_us) * SECOND_US / period;
    let percents = exact.div_ceil(PERCENT_US).max(1);
    // Below the value that means "no quota" in systemd.
    u64::try_from(percents * PERCENT_US).unwrap_or(u64::MAX - 1)
}

/// The content of `cpu.max` after systemd has written it (`cgroup_cpu_adjust_period`).
fn quota(asked: CpuQuota) -> CpuQuota {
    let Bound::At(quota_us) = asked.quota_us else { return asked };
    let per_second = quota_per_second(quota_us, asked.period_us);
    let shortest = SHORTEST_US.max(SHORTEST_US * 1_000_000 / per_second);
    let period_us = asked.period_us.max(shortest).min(LONGEST_US);
    let quota = u128::from(per_second) * u128::from(period_us) / SECOND_US;
    let quota_us = u64::try_from(quota).unwrap_or(u64::MAX).max(SHORTEST_US);
    CpuQuota { quota_us: Bound::At(quota_us), period_us }
}

/// systemd refuses a `TasksMax` of 0, and the kernel more than `PID_MAX_LIMIT`.
pub fn tasks(asked: Bound) -> Bound {
    match asked {
        Bound::At(n) if n <= MOST_TASKS => Bound::At(n.max(1)),
        _ => Bound::Max,
    }
}

/// The limits that systemd sets when these are requested: a CPU quota rounded up to 10 ms per second, no
/// weight together with `cpu.idle`, at least one task. Without the kernel's own rounding, see
/// [`crate::cgroup::control::Interface::settled`].
pub fn settle(limits: &Limits) -> Limits {
    Limits {
        // In systemd, idle is a weight; the kernel refuses any other weight on an idle cgroup.
        cpu: limits.cpu.filter(|_| limits.cpu_idle != Some(true)),
        cpu_quota: limits.cpu_quota.map(quota),
        pids_max: limits.pids_max.map(tasks),
        ..limits.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::CpuShare;
    use super::*;

    #[test]
    fn quotas_are_whole_percents() {
        for (quota_us, period_us, wanted) in [
            // A pod's 777m.
            (77_700, 100_000, (78_000, 100_000)),
            (30_000, 100_000, (30_000, 100_000)),
            (1_000, 100_000, (1_000, 100_000)),
            (1_001, 100_000, (2_000, 100_000)),
            (250_001, 100_000, (251_000, 100_000)),
            (7_770, 10_000, (7_800, 10_000)),
            (1_000, 30_000, (1_200, 30_000)),
            (777_000, 1_000_000, (780_000, 1_000_000)),
            // For quotas below a millisecond systemd lengthens the period instead.
            (100, 10_000, (1_000, 100_000)),
            (0, 100_000, (1_000, 100_000)),
            (500, 500, (1_000, 1_000)),
            (4_000_000, 2_000_000, (2_000_000, 1_000_000)),
        ] {
            let asked = CpuQuota { quota_us: Bound::At(quota_us), period_us };
            let wanted = CpuQuota { quota_us: Bound::At(wanted.0), period_us: wanted.1 };
            assert_eq!(quota(asked), wanted, "{asked:?}");
            assert_eq!(quota(wanted), wanted, "settled once is settled");
        }
        let none = CpuQuota { quota_us: Bound::Max, period_us: 100_000 };
        assert_eq!(quota(none), none);
    }

    #[test]
    fn huge_quotas_do_not_overflow() {
        assert_eq!(quota_per_second(u64::MAX, 1), u64::MAX - 1);
        assert_eq!(quota_per_second(10, 0), 10_000_000);
        let asked = CpuQuota { quota_us: Bound::At(u64::MAX), period_us: 1_000_000 };
        assert!(matches!(quota(asked).quota_us, Bound::At(n) if n > 1 << 60));
    }

    #[test]
    fn tasks_and_idleness() {
        let asked = Limits {
            cpu: Some(CpuShare::Shares(340)),
            pids_max: Some(Bound::At(0)),
            memory_max: Some(Bound::At(4097)),
            ..Limits::default()
        };
        let wanted = Limits { pids_max: Some(Bound::At(1)), ..asked.clone() };
        assert_eq!(settle(&asked), wanted);
        let idle = Limits { cpu: None, cpu_idle: Some(true), ..wanted };
        assert_eq!(settle(&Limits { cpu_idle: Some(true), ..asked }), idle);
        assert_eq!(tasks(Bound::Max), Bound::Max);
        assert_eq!(tasks(Bound::At(4_194_304)), Bound::At(4_194_304));
        assert_eq!(tasks(Bound::At(4_194_305)), Bound::Max);
    }
}
