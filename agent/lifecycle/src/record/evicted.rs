//! A pod's newest eviction or preemption, as its record keeps it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_eviction::{EvictionReason, NodeCondition};

/// What of a pod's newest eviction must outlive the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    pub reason: EvictionReason,
    pub message: String,
    #[serde(default, with = "condition", skip_serializing_if = "Option::is_none")]
    pub condition: Option<NodeCondition>,
    pub since: Timestamp,
    /// When its containers have to have ended.
    pub due: Timestamp,
    /// Evictions in a row that count for the back-off, this one among them.
    pub times: u32,
    /// It had finished before: it does not start again.
    #[serde(default)]
    pub finished: bool,
    /// When it had ended completely; `None` while it is being ended.
    #[serde(default)]
    pub gone: Option<Timestamp>,
    /// When it started again.
    #[serde(default)]
    pub back: Option<Timestamp>,
}

/// Written by the kubelet's name; an unknown name is read as no condition.
mod condition {
    use serde::{Deserialize, Deserializer, Serializer};

    use nodewarden_eviction::NodeCondition;

    #[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
    pub fn serialize<S: Serializer>(value: &Option<NodeCondition>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(condition) => to.serialize_str(condition.name()),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NodeCondition>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        Ok(NodeCondition::ALL.into_iter().find(|condition| Some(condition.name()) == name.as_deref()))
    }
}
