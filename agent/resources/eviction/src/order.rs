//! An order to evict or to preempt one pod.

use std::time::Duration;

use super::NodeCondition;

/// `status.reason` of an evicted pod (kubelet `eviction.Reason`).
pub const EVICTED: &str = "Evicted";

/// An eviction or preemption order for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// `status.reason`: `Evicted`, `Preempting`.
    pub reason: String,
    /// `status.message`, in the kubelet's words.
    pub message: String,
    /// Upper bound of the termination grace period; `None`: the pod's own.
    pub grace: Option<Duration>,
    /// The pod is not started again while this node condition is true.
    pub condition: Option<NodeCondition>,
}
