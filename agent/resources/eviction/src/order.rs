//! An order to evict or to preempt one pod.

use std::time::Duration;

use super::NodeCondition;

/// `status.reason` of a pod that the node was short of something for (kubelet `eviction.Reason`).
pub const EVICTED: &str = "Evicted";

/// An eviction or preemption order for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// `status.reason`: `Evicted`, `Preempting`.
    pub reason: String,
    /// `status.message`, in the kubelet's words.
    pub message: String,
    /// How long it may take to end at most; none: as long as it says itself.
    pub grace: Option<Duration>,
    /// It does not come back as long as this is true.
    pub condition: Option<NodeCondition>,
}
