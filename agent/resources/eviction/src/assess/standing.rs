//! What of the past counts: since when a threshold is passed, whether it is being acted on, and since when a condition
//! is true. It outlives the agent.
//!
//! Times are of the wall clock. Where it was set back, what lies in the future counts as now: a grace may become longer
//! by that, never shorter.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::between;
use crate::{NodeCondition, Pressure};
use nodewarden_config::EvictionThreshold;

/// A threshold that nobody looked at for longer (the agent was down, the signal could not be read) counts as not passed
/// before: what lies between is not known.
const UNSEEN: Duration = Duration::from_secs(60);

/// How thresholds and conditions stood at the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Standing {
    /// By what makes a threshold the same one: signal, value and grace.
    passed: BTreeMap<String, Passed>,
    /// True ones.
    conditions: BTreeMap<NodeCondition, Held>,
}

/// A threshold that is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Passed {
    pub since: Timestamp,
    /// When it was found passed last.
    pub seen: Timestamp,
    /// It is acted on, so its minimum reclaim counts.
    pub due: bool,
}

/// A condition that is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub since: Timestamp,
    /// When a threshold of it was found passed last.
    pub seen: Timestamp,
}

impl Standing {
    pub(super) fn passed(&self, threshold: &EvictionThreshold, now: Timestamp) -> Option<Passed> {
        let passed = self.passed.get(&key(threshold))?;
        (between(passed.seen, now) <= UNSEEN).then(|| Passed {
            since: passed.since.min(now),
            seen: passed.seen.min(now),
            due: passed.due,
        })
    }

    pub(super) fn pass(&mut self, threshold: &EvictionThreshold, passed: Passed) {
        self.passed.insert(key(threshold), passed);
    }

    /// A condition that was found within the transition period (kubelet `nodeConditionsObservedSince`).
    pub(super) fn held(
        &self,
        condition: NodeCondition,
        transition: Duration,
        now: Timestamp,
    ) -> Option<Held> {
        let held = self.conditions.get(&condition)?;
        (between(held.seen, now) < transition)
            .then(|| Held { since: held.since.min(now), seen: held.seen.min(now) })
    }

    pub(super) fn hold(&mut self, condition: NodeCondition, held: Held) {
        self.conditions.insert(condition, held);
    }

    /// Conditions that were true at the last look.
    pub fn pressure(&self) -> Pressure {
        Pressure(self.conditions.iter().map(|(condition, held)| (*condition, held.since)).collect())
    }
}

/// The kubelet's `hasThreshold` compares the same.
fn key(threshold: &EvictionThreshold) -> String {
    format!("{}<{} for {}ns", threshold.signal.name(), threshold.value, threshold.grace.as_nanos())
}
