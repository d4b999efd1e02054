//! `oom_score_adj`: which containers the OOM killer prefers (kubelet pkg/kubelet/qos/policy.go, KEP-753,
//! KEP-2837).

use super::amount;
use nodewarden_manifest::QosClass;
use nodewarden_manifest::{Container, ContainerKind, Pod};

/// Containers of Guaranteed pods and of `system-node-critical` pods.
pub const GUARANTEED: i32 = -997;
/// Containers of BestEffort pods.
pub const BEST_EFFORT: i32 = 1000;
/// Score of a pod's sandbox, whose end would end the whole pod. The runtime sets it.
#[cfg(test)]
pub const SANDBOX: i32 = -998;

const LEAST_BURSTABLE: i64 = 1000 + GUARANTEED as i64;
const MOST_BURSTABLE: i64 = BEST_EFFORT as i64 - 1;

/// The score of one of the pod's containers on a machine with `capacity` bytes of memory, as the kubelet
/// computes it.
///
/// It is above 1000 if a pod requests less memory than its containers, which the API server refuses; see
/// [`writable`].
pub fn container(pod: &Pod, container: &Container, capacity: u64) -> i32 {
    if pod.is_node_critical() {
        return GUARANTEED;
    }
    match pod.qos {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => {
            let share = share_of_pod_request(pod);
            let own = request(container) + share;
            if container.kind == ContainerKind::Sidecar {
                let least = pod.containers.iter().map(request).min().unwrap_or(0);
                burstable_sidecar(own, least + share, capacity)
            } else {
                burstable(own, capacity)
            }
        }
    }
}

/// The nearest value that the kernel accepts and that is below the score of BestEffort containers.
pub fn writable(adjust: i32) -> i32 {
    if adjust > BEST_EFFORT { MOST_BURSTABLE as i32 } else { adjust }
}

fn request(container: &Container) -> i128 {
    amount::memory_bytes(&container.resources.requests).unwrap_or(0).into()
}

/// The part of the pod's own request that exceeds its containers' requests, divided equally among all
/// containers, including init containers.
fn share_of_pod_request(pod: &Pod) -> i128 {
    let own = pod.resources.as_ref().and_then(|r| amount::memory_bytes(&r.requests)).unwrap_or(0);
    if own == 0 {
        return 0;
    }
    let containers = amount::memory_bytes(&pod.containers_requests()).unwrap_or(0);
    let count = (pod.containers.len() + pod.init_containers.len()).max(1);
    (i128::from(own) - i128::from(containers)) / count as i128
}

/// The score of a Burstable pod's container with a request of `request` bytes on a machine with `capacity`
/// bytes: a request for a tenth of the memory makes the OOM killer count a tenth of the memory less.
fn burstable(request: i128, capacity: u64) -> i32 {
    bounded(unbounded(request, capacity))
}

/// Like [`burstable`] for a sidecar, which must not be killed before a container that needs it: at most the
/// score of the regular container with the smallest request.
fn burstable_sidecar(request: i128, least_ordinary: i128, capacity: u64) -> i32 {
    bounded(unbounded(request, capacity).min(unbounded(least_ordinary, capacity)))
}

fn unbounded(request: i128, capacity: u64) -> i64 {
    // There is no machine without memory; the minimum avoids a division by zero.
    let adjust = 1000 - 1000 * request / i128::from(capacity.max(1));
    adjust.clamp(i32::MIN.into(), i32::MAX.into()) as i64
}

fn bounded(adjust: i64) -> i32 {
    match adjust.max(LEAST_BURSTABLE) {
        exactly if exactly == i64::from(BEST_EFFORT) => MOST_BURSTABLE as i32,
        within => within as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i128 = 1 << 30;

    #[test]
    fn burstable_scores_are_between_guaranteed_and_best_effort() {
        for (request, capacity, adjust) in [
            (0, GIB, 999),
            (1, GIB, 999),
            (GIB / 10, GIB, 901),
            (GIB / 2, GIB, 500),
            (GIB, GIB, 3),
            (GIB * 997 / 1000 + 1, GIB, 3),
            (4 * GIB, GIB, 3),
            (i128::from(u64::MAX), 1, 3),
            (-GIB, GIB, 2000),
            (1, 0, 3),
        ] {
            assert_eq!(burstable(request, capacity as u64), adjust, "{request} of {capacity}");
        }
    }

    #[test]
    fn a_sidecar_is_not_killed_before_the_container_with_the_smallest_request() {
        assert_eq!(burstable_sidecar(GIB / 10, GIB / 2, 1 << 30), 500);
        assert_eq!(burstable_sidecar(GIB / 2, GIB / 10, 1 << 30), 500);
        assert_eq!(burstable_sidecar(0, 0, 1 << 30), 999);
        assert_eq!(burstable_sidecar(0, 2 * GIB, 1 << 30), 3);
    }

    #[test]
    fn written_scores_are_in_the_kernels_range() {
        for (adjust, written) in [(2000, 999), (1001, 999), (1000, 1000), (3, 3), (-997, -997)] {
            assert_eq!(writable(adjust), written, "{adjust}");
        }
    }
}
