//! `oom_score_adj`: whom the kernel kills first (kubelet pkg/kubelet/qos/policy.go, KEP-753, KEP-2837).

use super::amount;
use crate::pod::{Container, ContainerKind, Pod};
use crate::view::QosClass;

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

/// What one of the pod's containers gets on a machine with `capacity` bytes of memory.
pub fn container(pod: &Pod, container: &Container, capacity: u64) -> i32 {
    if pod.is_node_critical() {
        return GUARANTEED;
    }
    match pod.qos {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => {
            let share = share_of_pod_request(pod);
            let own = request(container).saturating_add(share);
            if container.kind == ContainerKind::Sidecar {
                let least = pod.containers.iter().map(request).min().unwrap_or(0);
                burstable_sidecar(own, least.saturating_add(share), capacity)
            } else {
                burstable(own, capacity)
            }
        }
    }
}

fn request(container: &Container) -> u64 {
    amount::memory_bytes(&container.resources.requests).unwrap_or(0)
}

/// What the pod asks for beyond its containers, in equal parts for all of them, init containers too.
fn share_of_pod_request(pod: &Pod) -> u64 {
    let Some(own) = pod.resources.as_ref().and_then(|r| amount::memory_bytes(&r.requests)) else { return 0 };
    let containers = amount::memory_bytes(&pod.containers_requests()).unwrap_or(0);
    let count = (pod.containers.len() + pod.init_containers.len()).max(1) as u64;
    own.saturating_sub(containers) / count
}

/// What a Burstable pod's container gets for a request of `request` bytes on a machine with `capacity` bytes: a
/// container that asks for a tenth of the memory is spared until it uses a tenth more than others.
pub fn burstable(request: u64, capacity: u64) -> i32 {
    bounded(unbounded(request, capacity))
}

/// As [`burstable`] for a sidecar, which must not go before a container that needs it: at most what the ordinary
/// container with the least request gets.
pub fn burstable_sidecar(request: u64, least_ordinary: u64, capacity: u64) -> i32 {
    bounded(unbounded(request, capacity).min(unbounded(least_ordinary, capacity)))
}

fn unbounded(request: u64, capacity: u64) -> i64 {
    // A machine without memory cannot be; it must not divide by zero either.
    let share = 1000 * i128::from(request) / i128::from(capacity.max(1));
    i64::try_from(1000 - share).unwrap_or(i64::MIN)
}

fn bounded(adjust: i64) -> i32 {
    // Only ever within ±1000 after this.
    adjust.clamp(LEAST_BURSTABLE, MOST_BURSTABLE) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn burstable_between_guaranteed_and_best_effort() {
        for (request, capacity, adjust) in [
            (0, GIB, 999),
            (1, GIB, 999),
            (GIB / 10, GIB, 901),
            (GIB / 2, GIB, 500),
            (GIB, GIB, 3),
            (GIB * 997 / 1000 + 1, GIB, 3),
            (4 * GIB, GIB, 3),
            (u64::MAX, 1, 3),
            (1, 0, 3),
        ] {
            assert_eq!(burstable(request, capacity), adjust, "{request} of {capacity}");
        }
    }

    #[test]
    fn a_sidecar_goes_no_earlier_than_the_least_container() {
        assert_eq!(burstable_sidecar(GIB / 10, GIB / 2, GIB), 500);
        assert_eq!(burstable_sidecar(GIB / 2, GIB / 10, GIB), 500);
        assert_eq!(burstable_sidecar(0, 0, GIB), 999);
        assert_eq!(burstable_sidecar(0, 2 * GIB, GIB), 3);
    }
}
