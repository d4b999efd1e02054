//! Since when the conditions of a pod that the node's agent writes are as they are, without their texts.

use jiff::Timestamp;

use crate::known_pods::{ConditionStatus, KnownPod};

/// The conditions that have a time, in the order of [`Transitions`].
const TYPES: [&str; 8] = [
    "PodScheduled",
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodResizePending",
    "PodResizeInProgress",
    "DisruptionTarget",
];

/// Status and time of the last transition of each condition, in whole seconds as the API has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transitions([Option<(ConditionStatus, Option<Timestamp>)>; TYPES.len()]);

impl Transitions {
    /// As the API server has them.
    pub fn of(known: &KnownPod) -> Self {
        Self(TYPES.map(|name| known.condition(name).map(|own| (own.status, own.since))))
    }

    /// When the condition of this type got this status: the known time if it has it already, else `now`.
    pub(super) fn at(
        &self,
        name: &str,
        status: ConditionStatus,
        now: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let before = TYPES.iter().position(|own| *own == name).and_then(|place| self.0[place]);
        match before {
            Some((own, since)) if own == status => since.or(now),
            _ => now,
        }
    }

    /// Notes a condition.
    pub(super) fn set(&mut self, name: &str, status: ConditionStatus, since: Option<Timestamp>) {
        if let Some(place) = TYPES.iter().position(|own| *own == name) {
            self.0[place] = Some((status, since));
        }
    }
}

/// The second that this moment is in: the API knows nothing smaller.
pub(crate) fn second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
