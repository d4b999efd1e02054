//! Which thresholds are passed, which of them have to be acted on, and which node conditions follow (kubelet
//! `synchronize`: `thresholdsMet`, `thresholdsFirstObservedAt`, `thresholdsMetGracePeriod`,
//! `nodeConditions…`).
//!
//! A threshold is passed when less than it is available. Once it is acted on, it stays passed until its
//! minimum reclaim is available beyond it. A hard one is acted on at once, a soft one after its grace; a
//! condition is true as soon as a threshold of it is passed, grace or not, and for the transition period
//! after.

mod layout;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

use super::{NodeCondition, Observations, Observed, Pressure};
use nodewarden_config::{EvictionSettings, EvictionThreshold, Signal, Threshold};
use nodewarden_model::SignalSeen;

pub use layout::for_layout;
pub use state::ThresholdState;
use state::{Held, Passed};

/// A threshold that has to be acted on.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    pub threshold: EvictionThreshold,
    pub observed: Observed,
    /// The threshold in bytes, inodes or processes.
    pub limit: u64,
    /// How much has to be freed beyond `limit`.
    pub reclaim: u64,
    pub passed_since: Timestamp,
}

impl Due {
    /// Whether `available` is enough, minimum reclaim included.
    pub fn is_met_by(&self, available: u64) -> bool {
        available >= self.limit.saturating_add(self.reclaim)
    }
}

/// Result of comparing one reading of the node with the thresholds.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    /// State to pass to the next assessment.
    pub state: ThresholdState,
    pub pressure: Pressure,
    /// Hard ones first; among them memory, then processes, then disks.
    pub due: Vec<Due>,
    /// Every threshold whose signal was read, in the order of the settings.
    pub seen: Vec<SignalSeen>,
    /// When the next grace or transition period ends: the node has to be assessed again then.
    pub again: Option<Timestamp>,
}

/// Compares readings with the thresholds. The state of a signal that was not read is left as it was: nothing
/// is done for it, and its grace period continues as long as the gap is short.
pub fn assess(
    settings: &EvictionSettings,
    observations: &Observations,
    state: &ThresholdState,
    now: Timestamp,
) -> Assessment {
    let mut next = state.following();
    let (mut due, mut seen, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut pressed = Vec::new();
    for threshold in &settings.thresholds {
        let before = state.passed(threshold, now);
        let Some(observed) = observations.get(&threshold.signal).copied() else {
            if let Some(before) = before {
                next.pass(threshold, before);
            }
            continue;
        };
        let least = limit(&threshold.value, observed.capacity);
        let reclaim = threshold.min_reclaim.as_ref().map_or(0, |more| limit(more, observed.capacity));
        let reclaiming = before.is_some_and(|passed| passed.due);
        let wanted = if reclaiming { least.saturating_add(reclaim) } else { least };
        let since = (observed.available < wanted).then(|| before.map_or(now, |passed| passed.since));
        seen.push(signal_seen(threshold, observed, least, since.map(|since| between(since, now))));
        let Some(since) = since else { continue };
        pressed.push(NodeCondition::of(threshold.signal));
        let is_due = between(since, now) >= threshold.grace;
        next.pass(threshold, Passed { since, seen: now, due: is_due });
        if is_due {
            let threshold = threshold.clone();
            due.push(Due { threshold, observed, limit: least, reclaim, passed_since: since });
        } else {
            ends.extend(since.checked_add(threshold.grace));
        }
    }
    for condition in NodeCondition::ALL {
        let before = state.held(condition, settings.transition, now);
        if pressed.contains(&condition) {
            next.hold(condition, Held { since: before.map_or(now, |held| held.since), seen: now });
        } else if let Some(held) = before {
            next.hold(condition, held);
            ends.extend(held.seen.checked_add(settings.transition));
        }
    }
    due.sort_by_key(|due| (!due.threshold.is_hard(), urgency(due.threshold.signal)));
    let again = ends.into_iter().filter(|end| *end > now).min();
    Assessment { pressure: next.pressure(), state: next, due, seen, again }
}

/// The threshold in bytes, inodes or processes (kubelet `GetThresholdQuantity`).
pub fn limit(threshold: &Threshold, capacity: u64) -> u64 {
    match threshold {
        Threshold::Quantity(quantity) if quantity.fits_i64() => u64::try_from(quantity.value()).unwrap_or(0),
        Threshold::Quantity(_) => i64::MAX as u64,
        Threshold::Fraction(fraction) => (capacity as f64 * fraction) as u64,
    }
}

/// Memory before everything else, as in the kubelet (`byEvictionPriority`), which leaves the rest unordered.
/// Here processes come before disks: without a free process number, nothing can be started that frees disk
/// space.
fn urgency(signal: Signal) -> (u8, Signal) {
    let class = match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => 0,
        Signal::PidAvailable => 1,
        _ => 2,
    };
    (class, signal)
}

fn signal_seen(
    threshold: &EvictionThreshold,
    observed: Observed,
    least: u64,
    passed_for: Option<Duration>,
) -> SignalSeen {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    SignalSeen {
        signal: threshold.signal.name().to_owned(),
        available: observed.available,
        capacity: observed.capacity,
        threshold: least,
        hard: threshold.is_hard(),
        passed: passed_for.is_some(),
        passed_for_ms: passed_for.map(millis),
        grace_ms: (!threshold.is_hard()).then(|| millis(threshold.grace)),
    }
}

/// Time between; zero if the clock was set back.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
