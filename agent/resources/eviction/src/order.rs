//! An order to evict or to preempt one pod.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NodeCondition;

/// `status.reason` of a pod that has to go. State files hold it as text.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display, strum::EnumString, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum EvictionReason {
    /// For what the node is low on, or for a limit of the pod's own (kubelet `eviction.Reason`).
    Evicted,
    /// A critical pod needs its resources (kubelet `events.PreemptContainer`).
    Preempting,
    /// A reason that another version of the agent recorded.
    #[strum(default)]
    Other(String),
}

impl From<String> for EvictionReason {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<EvictionReason> for String {
    fn from(reason: EvictionReason) -> Self {
        reason.to_string()
    }
}

/// An eviction or preemption order for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// `status.reason`.
    pub reason: EvictionReason,
    /// `status.message`, in the kubelet's words.
    pub message: String,
    /// Upper bound of the termination grace period; `None`: the pod's own.
    pub grace: Option<Duration>,
    /// Its processes are killed by the engine at this moment, as a hard threshold of memory or processes
    /// requires.
    pub killed: bool,
    /// The pod is not started again while this node condition is true.
    pub condition: Option<NodeCondition>,
}
