//! What only the engine and admission can count, under the kubelet's names where it has them (pkg/kubelet/metrics).

use std::time::Duration;

use nodewarden_metrics::Own;

/// A pod had to go for `signal` (`memory.available`).
pub fn evicted(signal: &str) {
    ::metrics::counter!(Own::Evictions.name(), "eviction_signal" => signal.to_owned()).increment(1);
}

/// A pod had to go for what was read this long ago.
pub fn stats_age(signal: &str, age: Duration) {
    let signal = signal.to_owned();
    ::metrics::histogram!(Own::EvictionStatsAge.name(), "eviction_signal" => signal)
        .record(age.as_secs_f64());
}

/// A pod made way for a critical one; `resource` is the first that was not enough (kubelet `evictPodsToFreeRequests`).
pub fn preempted(resource: &str) {
    ::metrics::counter!(Own::Preemptions.name(), "preemption_signal" => resource.to_owned()).increment(1);
}

/// From the reading that saw a hard threshold passed first to the kill.
pub fn crossing_to_kill(took: Duration) {
    ::metrics::histogram!(Own::EvictionCrossingToKill.name()).record(took.as_secs_f64());
}

/// From the same moment until none of the pod's processes was left.
pub fn crossing_to_dead(took: Duration) {
    ::metrics::histogram!(Own::EvictionCrossingToDead.name()).record(took.as_secs_f64());
}

/// From the kill until a reading was above the threshold again.
pub fn memory_back(took: Duration) {
    ::metrics::histogram!(Own::EvictionMemoryBack.name()).record(took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_metrics::recorder;

    #[test]
    fn counted_under_the_kubelets_names() {
        recorder::handle();
        evicted("told.test");
        stats_age("told.test", Duration::from_millis(2));
        preempted("told.test/resource");
        for took in [crossing_to_kill, crossing_to_dead, memory_back] {
            took(Duration::from_millis(3));
        }
        let text = String::from_utf8(recorder::render()).unwrap();
        for line in [
            "kubelet_evictions{eviction_signal=\"told.test\"} 1\n",
            "kubelet_eviction_stats_age_seconds_count{eviction_signal=\"told.test\"} 1\n",
            "kubelet_preemptions{preemption_signal=\"told.test/resource\"} 1\n",
            "nodewarden_eviction_crossing_to_kill_seconds_bucket{le=\"0.05\"} ",
            "nodewarden_eviction_crossing_to_dead_seconds_bucket{le=\"0.25\"} ",
            "nodewarden_eviction_memory_back_seconds_count ",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
