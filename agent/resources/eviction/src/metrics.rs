//! Metrics recorded by the engine and by admission, under the kubelet's names where it has them
//! (pkg/kubelet/metrics).

use std::time::Duration;

use nodewarden_metrics::Own;

/// Counts a pod that was evicted for `signal` (such as `memory.available`).
pub(crate) fn record_eviction(signal: &str) {
    ::metrics::counter!(Own::Evictions.name(), "eviction_signal" => signal.to_owned()).increment(1);
}

/// Counts a decision to evict a pod for `signal` that was only reported.
pub(crate) fn record_dry_run(signal: &str) {
    ::metrics::counter!(Own::EvictionsWould.name(), "eviction_signal" => signal.to_owned()).increment(1);
}

/// Records the age of the stats behind an eviction.
pub(crate) fn record_stats_age(signal: &str, age: Duration) {
    let signal = signal.to_owned();
    ::metrics::histogram!(Own::EvictionStatsAge.name(), "eviction_signal" => signal)
        .record(age.as_secs_f64());
}

/// Counts a pod that was preempted for a critical one; `resource` is the first that was insufficient (kubelet
/// `evictPodsToFreeRequests`).
pub fn record_preemption(resource: &str) {
    ::metrics::counter!(Own::Preemptions.name(), "preemption_signal" => resource.to_owned()).increment(1);
}

/// Records the time from the reading that first saw a hard threshold passed to the kill.
pub(crate) fn record_crossing_to_kill(took: Duration) {
    ::metrics::histogram!(Own::EvictionCrossingToKill.name()).record(took.as_secs_f64());
}

/// Records the time from that reading until none of the pod's processes was left.
pub(crate) fn record_crossing_to_dead(took: Duration) {
    ::metrics::histogram!(Own::EvictionCrossingToDead.name()).record(took.as_secs_f64());
}

/// Records the time from the kill until a reading was above the threshold again.
pub(crate) fn record_memory_back(took: Duration) {
    ::metrics::histogram!(Own::EvictionMemoryBack.name()).record(took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_metrics::recorder;

    #[test]
    fn counted_under_the_kubelets_names() {
        recorder::handle();
        record_eviction("metrics.test");
        record_stats_age("metrics.test", Duration::from_millis(2));
        record_dry_run("metrics.test");
        record_preemption("metrics.test/resource");
        for took in [record_crossing_to_kill, record_crossing_to_dead, record_memory_back] {
            took(Duration::from_millis(3));
        }
        let text = String::from_utf8(recorder::render()).unwrap();
        for line in [
            "kubelet_evictions{eviction_signal=\"metrics.test\"} 1\n",
            "kubelet_eviction_stats_age_seconds_count{eviction_signal=\"metrics.test\"} 1\n",
            "nodewarden_would_evict_total{eviction_signal=\"metrics.test\"} 1\n",
            "kubelet_preemptions{preemption_signal=\"metrics.test/resource\"} 1\n",
            "nodewarden_eviction_crossing_to_kill_seconds_bucket{le=\"0.05\"} ",
            "nodewarden_eviction_crossing_to_dead_seconds_bucket{le=\"0.25\"} ",
            "nodewarden_eviction_memory_back_seconds_count ",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
