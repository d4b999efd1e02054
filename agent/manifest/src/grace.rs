//! The termination grace period of a pod.

use std::time::Duration;

use crate::Pod;

const DEFAULT_SECONDS: i64 = 30;

/// `spec.terminationGracePeriodSeconds`, 30 s if it is not set. As in the API server, negative values mean 1
/// s (registry/core/pod strategy).
pub fn grace(pod: &Pod) -> Duration {
    let seconds = pod.spec().termination_grace_period_seconds.unwrap_or(DEFAULT_SECONDS);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(1))
}
