//! `oom_score_adj`: whom the kernel kills first (kubelet pkg/kubelet/qos/policy.go, KEP-753, KEP-2837).

/// Containers of Guaranteed pods and of `system-node-critical` pods.
pub const GUARANTEED: i32 = -997;
/// Containers of BestEffort pods.
pub const BEST_EFFORT: i32 = 1000;
/// A pod's sandbox: when it is killed the whole pod goes. Set by the runtime itself.
pub const SANDBOX: i32 = -998;
/// The agent and the daemons that pods depend on.
pub const AGENT: i32 = -999;

const LEAST_BURSTABLE: i64 = 1000 + GUARANTEED as i64;
const MOST_BURSTABLE: i64 = BEST_EFFORT as i64 - 1;

/// What a Burstable pod's container gets for `request` bytes on a machine with `capacity` bytes: a container that asks
/// for a tenth of the memory is spared until it uses a tenth more than others.
pub fn burstable(request: i64, capacity: u64) -> i32 {
    burstable_of(unbounded(request, capacity))
}

/// As [`burstable`] for a sidecar, which no container that needs it may outlive: at most what the least of the pod's
/// ordinary containers gets.
pub fn burstable_sidecar(request: i64, least_ordinary: i64, capacity: u64) -> i32 {
    burstable_of(unbounded(request, capacity).min(unbounded(least_ordinary, capacity)))
}

fn unbounded(request: i64, capacity: u64) -> i64 {
    // A machine without memory cannot be; it must not divide by zero either.
    let share = 1000 * i128::from(request) / i128::from(capacity.max(1));
    i64::try_from(1000 - share).unwrap_or(i64::MIN)
}

fn burstable_of(adjust: i64) -> i32 {
    // Only ever within ±1000 after this.
    adjust.clamp(LEAST_BURSTABLE, MOST_BURSTABLE) as i32
}
