//! CPU amounts in the units of cgroups: shares (v1), CFS quota, weight (v2).

use std::time::Duration;

use nodewarden_machine::cgroup::control::{Bound, CpuQuota};

/// The minimum of `cpu.shares` that the kernel accepts.
pub const MIN_SHARES: u64 = 2;
/// The maximum of `cpu.shares` that the kernel accepts.
pub const MAX_SHARES: u64 = 262_144;
/// The CFS period unless configured otherwise, in microseconds; also the kernel's own default.
pub const DEFAULT_PERIOD_US: u64 = 100_000;
/// The minimum of `cpu.cfs_quota_us` that the kernel accepts.
const MIN_QUOTA_US: u64 = 1_000;

const SHARES_PER_CPU: u128 = 1024;
const MILLI_PER_CPU: u128 = 1000;

/// `cpu.shares` of a CPU request (kubelet `MilliCPUToShares`).
pub fn shares_from_milli(milli: u64) -> u64 {
    let shares = u128::from(milli) * SHARES_PER_CPU / MILLI_PER_CPU;
    shares.clamp(MIN_SHARES.into(), MAX_SHARES.into()) as u64
}

/// CFS quota in microseconds of a CPU limit (kubelet `MilliCPUToQuota`); `None` without a limit. `period_us`
/// is the period in force, see [`period_us`].
pub fn quota_from_milli(milli: u64, period_us: u64) -> Option<u64> {
    let quota = u128::from(milli) * u128::from(period_us) / MILLI_PER_CPU;
    (milli > 0).then(|| u64::try_from(quota).unwrap_or(u64::MAX).max(MIN_QUOTA_US))
}

/// The CFS period in microseconds of a configured `cpuCFSQuotaPeriod`.
///
/// A kubelet accepts the key only if its feature gate `CustomCPUCFSQuotaPeriod` is on. Here there is no such
/// gate: the key always has effect.
pub fn period_us(configured: Duration) -> u64 {
    u64::try_from(configured.as_micros()).unwrap_or(u64::MAX)
}

/// The bandwidth limit of a CPU limit; [`Bound::Max`] without one.
pub fn bandwidth(limit_milli: u64, period_us: u64) -> CpuQuota {
    let quota_us = quota_from_milli(limit_milli, period_us).map_or(Bound::Max, Bound::At);
    CpuQuota { quota_us, period_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_from_millicores_within_the_kernels_bounds() {
        for (milli, shares) in
            [(0, 2), (1, 2), (2, 2), (3, 3), (10, 10), (100, 102), (1000, 1024), (256_000, 262_144)]
        {
            assert_eq!(shares_from_milli(milli), shares, "{milli}");
        }
        assert_eq!(shares_from_milli(u64::MAX), MAX_SHARES);
    }

    #[test]
    fn quotas_follow_from_millicores_and_period() {
        for (milli, period, quota) in [
            (0, 100_000, None),
            (1, 100_000, Some(1_000)),
            (10, 100_000, Some(1_000)),
            (11, 100_000, Some(1_100)),
            (777, 100_000, Some(77_700)),
            (1, 1_000_000, Some(1_000)),
            (50, 10_000, Some(1_000)),
            (2_500, 10_000, Some(25_000)),
            (u64::MAX, 1_000_000, Some(u64::MAX)),
        ] {
            assert_eq!(quota_from_milli(milli, period), quota, "{milli} of {period}");
        }
        assert_eq!(bandwidth(0, 50_000), CpuQuota { quota_us: Bound::Max, period_us: 50_000 });
    }

    #[test]
    fn a_configured_period_is_converted_to_microseconds() {
        assert_eq!(period_us(Duration::from_millis(10)), 10_000);
    }
}
