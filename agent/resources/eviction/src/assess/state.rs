//! State between assessments: since when a threshold is passed, whether it is being acted on, and since when
//! a condition is true. It is saved across restarts of the agent.
//!
//! Times are of the wall clock, and are moved along when it is set ([`ThresholdState::align`]). Only while
//! the machine was off that cannot be seen: a time in the future then counts as now.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::between;
use crate::{NodeCondition, Pressure};
use nodewarden_config::EvictionThreshold;
use nodewarden_model::ClockReading;

/// A threshold that was not read for longer than this (the agent was down, the signal could not be read)
/// counts as not passed before, since the time between is not known.
const UNSEEN: Duration = Duration::from_secs(60);

/// Thresholds and conditions as of the last assessment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThresholdState {
    /// By signal, value and grace, which together identify a threshold.
    passed: BTreeMap<String, Passed>,
    /// The conditions that are true.
    conditions: BTreeMap<NodeCondition, Held>,
    /// The clocks when these times were right. Unknown in what older agents saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<ClockReading>,
}

/// A threshold that is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Passed {
    pub since: Timestamp,
    /// When it was last found passed.
    pub seen: Timestamp,
    /// It is acted on, so its minimum reclaim counts.
    pub due: bool,
}

/// A condition that is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub since: Timestamp,
    /// When a threshold of it was last found passed.
    pub seen: Timestamp,
}

impl ThresholdState {
    /// Moves the times along with the wall clock if it was set since they were taken.
    pub fn align(&mut self, now: &ClockReading) {
        let Self { passed, conditions, clock } = self;
        now.align(clock, |shift| {
            let passed = passed.values_mut().flat_map(|passed| [&mut passed.since, &mut passed.seen]);
            let held = conditions.values_mut().flat_map(|held| [&mut held.since, &mut held.seen]);
            passed.chain(held).for_each(|time| shift.apply(time));
        });
    }

    /// A state without thresholds and conditions, whose times will be of the same clock.
    pub(super) fn following(&self) -> Self {
        Self { clock: self.clock.clone(), ..Self::default() }
    }

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

    /// A condition that was seen within the transition period (kubelet `nodeConditionsObservedSince`).
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

    /// The conditions that were true at the last assessment.
    pub fn pressure(&self) -> Pressure {
        Pressure(self.conditions.iter().map(|(condition, held)| (*condition, held.since)).collect())
    }
}

/// Compares what the kubelet's `hasThreshold` compares.
fn key(threshold: &EvictionThreshold) -> String {
    format!("{}<{} for {}ns", threshold.signal.name(), threshold.value, threshold.grace.as_nanos())
}
