//! Events: the record that the journal keeps and that the command line and gRPC show.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::place::PodRef;
use crate::topics::Detail;

/// One event. Serialised as one JSON object per line in the journal and by `nodewarden events --output json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one with every event of this node, also across restarts of the agent.
    pub seq: u64,
    /// When it happened in the kernel (not when it was read).
    pub time: Timestamp,
    /// Path of the cgroup that it happened to; empty for the agent's own events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// The pod and container that the cgroup belongs to; `None` if it belongs to none, or if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// What happened, by type.
    #[serde(flatten)]
    pub detail: Detail,
}
