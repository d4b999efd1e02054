//! MemoryQoS (KEP-2570): which requests the kernel protects, and from which usage on it throttles.

use super::Node;
use nodewarden_config::MemoryReservation;
use nodewarden_manifest::QosClass;

/// `memory.min` and `memory.low` of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protection {
    /// Bytes that are never reclaimed (`memory.min`).
    pub min: u64,
    /// Bytes that are reclaimed only if there is nothing else to reclaim (`memory.low`).
    pub low: u64,
}

impl Protection {
    /// The protection of a request of `bytes` in a pod of this class. Kubernetes 1.35, which has no policy,
    /// protects every request by `memory.min`.
    pub fn of(policy: MemoryReservation, class: QosClass, bytes: u64) -> Self {
        use MemoryReservation::{None, TieredReservation, Unset};
        match (policy, class) {
            (None, _) | (_, QosClass::BestEffort) => Self::default(),
            (Unset, _) | (TieredReservation, QosClass::Guaranteed) => Self { min: bytes, low: 0 },
            (TieredReservation, QosClass::Burstable) => Self { min: 0, low: bytes },
        }
    }
}

/// A parent that protects less than its children reduces their protection (memory.min in the kernel's
/// cgroup-v2.rst), so it needs the sums of their `min` and of their `low`. A kubelet with
/// `TieredReservation` gives kubepods the sum of both as `memory.min` and no `memory.low`; then Burstable's
/// `memory.low` has no effect, or, mounted with `memory_recursiveprot`, everything below kubepods is
/// protected hard.
impl std::ops::AddAssign for Protection {
    fn add_assign(&mut self, other: Self) {
        self.min = self.min.saturating_add(other.min);
        self.low = self.low.saturating_add(other.low);
    }
}

/// `memory.high` of a container, in bytes: `⌊(request + factor × (limit − request)) / page⌋ × page`, with the
/// node's allocatable memory if there is no limit (`limit` 0). `None` if the result would not be above the
/// request, and for a request that equals its limit.
///
/// Without request and limit (BestEffort), Kubernetes 1.35 sets none. Since 1.36, which introduced the
/// reservation policy, it sets a part of the allocatable memory, so here a configured policy does the same.
pub fn high(request: u64, limit: u64, allocatable: u64, node: Node<'_>) -> Option<u64> {
    let settings = node.settings;
    if request == limit && (request > 0 || settings.memory_reservation == MemoryReservation::Unset) {
        return None;
    }
    let top = if limit == 0 { allocatable } else { limit };
    if top == 0 {
        return None;
    }
    // In the kubelet's order of operations, so that the result is the same to the last bit.
    let exact = request as f64 + (top as f64 - request as f64) * settings.memory_throttling_factor;
    let page = node.facts.page_size.max(1);
    let high = (exact.floor() / page as f64) as u64 * page;
    (high > request).then_some(high)
}

#[cfg(test)]
mod tests;
