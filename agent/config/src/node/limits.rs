//! Keys about CPU quota, memory, swap and processes.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::node::{MemoryReservation, NodeSettings, SwapBehavior};

/// The range of a CFS period in the kernel, and of `cpuCFSQuotaPeriod` in the kubelet.
const PERIOD: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);

pub fn take(top: &mut Fields<'_>, gates: FeatureGates, settings: &mut NodeSettings) {
    settings.cpu_cfs_quota = top.flag("cpuCFSQuota", settings.cpu_cfs_quota);
    settings.cpu_cfs_quota_period = period(top, gates, settings.cpu_cfs_quota_period);
    settings.qos_reserved_memory_percent = qos_reserved(top, gates);
    settings.memory_qos = gates.memory_qos;
    settings.memory_throttling_factor = top
        .float("memoryThrottlingFactor", "a number over 0 and at most 1", |n| n > 0.0 && n <= 1.0)
        .unwrap_or(settings.memory_throttling_factor);
    settings.memory_reservation = memory_reservation(top, gates);
    settings.swap_behavior = swap(top, gates);
    settings.fail_swap_on = top.flag("failSwapOn", settings.fail_swap_on);
    settings.fail_cgroup_v1 = top.flag("failCgroupV1", settings.fail_cgroup_v1);
    settings.single_process_oom_kill = top.optional_flag("singleProcessOOMKill");
    // Negative values and 0 mean no limit except that of the node.
    settings.pod_pids_limit = top
        .integer("podPidsLimit", "a whole number, -1 for none", &(i64::MIN..=i64::MAX))
        .and_then(|n| u64::try_from(n).ok())
        .filter(|n| *n > 0);
}

fn period(top: &mut Fields<'_>, gates: FeatureGates, default: Duration) -> Duration {
    let key = "cpuCFSQuotaPeriod";
    let expected = if gates.custom_cpu_cfs_quota_period {
        "a time from 1ms to 1s"
    } else {
        "100ms, or the feature gate CustomCPUCFSQuotaPeriod"
    };
    let fits = |time: &Duration| {
        if gates.custom_cpu_cfs_quota_period { PERIOD.contains(time) } else { *time == default }
    };
    top.duration_if(key, expected, fits).unwrap_or(default)
}

/// Reads `qosReserved`: the kubelet accepts `memory`, and uses it only with the feature gate.
fn qos_reserved(top: &mut Fields<'_>, gates: FeatureGates) -> Option<u8> {
    let key = "qosReserved";
    let given = top.text_map(key)?;
    let mut percent = None;
    for (resource, text) in given {
        let field = format!("{key}.{resource}");
        if resource != "memory" {
            top.refuse(&field, "unknown resource", "memory");
            continue;
        }
        percent = text.strip_suffix('%').and_then(|n| n.parse::<u8>().ok()).filter(|n| *n <= 100);
        if percent.is_none() {
            top.refuse(&field, &text, "a whole percentage from 0% to 100%");
        }
    }
    if !gates.qos_reserved {
        top.without_effect(key, "the feature gate QOSReserved is off");
        return None;
    }
    percent
}

fn memory_reservation(top: &mut Fields<'_>, gates: FeatureGates) -> MemoryReservation {
    let key = "memoryReservationPolicy";
    let policy = top.choice(key, &["None", "TieredReservation"], true);
    if policy == Some(MemoryReservation::TieredReservation) && !gates.memory_qos {
        top.refuse(key, "TieredReservation", "None, or the feature gate MemoryQoS");
    }
    policy.unwrap_or(MemoryReservation::Unset)
}

fn swap(top: &mut Fields<'_>, gates: FeatureGates) -> SwapBehavior {
    let key = "swapBehavior";
    let mut f = top.inside("memorySwap");
    let behavior: Option<SwapBehavior> = f.choice(key, &["NoSwap", "LimitedSwap"], true);
    if let Some(behavior) = behavior.filter(|_| !gates.node_swap) {
        f.refuse(key, behavior.into(), "nothing, because the feature gate NodeSwap is off");
    }
    f.finish();
    behavior.unwrap_or(SwapBehavior::NoSwap)
}
