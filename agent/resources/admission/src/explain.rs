//! The decision record of a preemption: the candidates, the victims and the reason.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::amounts::{Amounts, amount};
use super::preempt::preemptable;
use super::queue::{Preempted, unable_text};
use super::refusal::Refusal;
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;
use nodewarden_model::{CandidateSeen, Decision, DecisionStep, SignalSeen};

/// Receives decisions; by default they are dropped.
#[derive(Clone)]
pub struct Explain(Arc<dyn Fn(Decision) + Send + Sync>);

impl Explain {
    /// Calls `record` with each decision.
    pub fn new(record: impl Fn(Decision) + Send + Sync + 'static) -> Self {
        Self(Arc::new(record))
    }

    /// Passes a decision on.
    pub fn record(&self, decision: Decision) {
        (self.0)(decision);
    }
}

impl Default for Explain {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explain").finish_non_exhaustive()
    }
}

/// The decision record; `took` is the time that the decision needed. It gets its number from the history.
pub fn decision(preempted: &Preempted, took: Duration) -> Decision {
    let Preempted { pod, refusals, victims, unable, .. } = preempted;
    let outcome = if victims.is_empty() {
        format!("no pod is preempted for {}: {}", name(pod), unable_text(unable))
    } else {
        let names: Vec<String> = victims.iter().map(name).collect();
        format!("{} preempted for {}", names.join(", "), name(pod))
    };
    let step = DecisionStep {
        what: "rank".to_owned(),
        after_us: 0,
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        result: format!("{} of {} pods are preempted", victims.len(), preempted.candidates.len()),
    };
    Decision {
        number: 0,
        time: Timestamp::now(),
        kind: "preemption".to_owned(),
        would: false,
        woken_by: format!("admission of {}", name(pod)),
        signals: refusals.iter().filter_map(signal).collect(),
        candidates: candidates(preempted),
        steps: vec![step],
        outcome,
    }
}

fn name(pod: &Arc<Pod>) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn positive(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

/// A resource as a signal: its threshold is the pod's request.
fn signal(refusal: &Refusal) -> Option<SignalSeen> {
    let Refusal::Insufficient { resource, requested, used, capacity } = refusal else { return None };
    Some(SignalSeen {
        signal: resource.clone(),
        available: positive(capacity - used),
        capacity: positive(*capacity),
        threshold: positive(*requested),
        hard: true,
        passed: true,
        passed_for_ms: None,
        grace_ms: None,
    })
}

/// The victims in order, then the pods that could have been chosen, then those that could not. Usage and
/// request are what they hold of the first missing resource.
fn candidates(preempted: &Preempted) -> Vec<CandidateSeen> {
    let resource = preempted.refusals.iter().find_map(|own| Some(own.missing()?.0)).unwrap_or_default();
    let seen = |(pod, held): &(Arc<Pod>, Amounts)| {
        let may = preemptable(&preempted.pod, pod);
        let held = positive(amount(held, resource));
        let chosen = preempted.victims.iter().any(|victim| victim.uid == pod.uid);
        CandidateSeen::new(pod, (held, held), chosen, if may { "" } else { "its priority is not lower" })
    };
    let rank = |(pod, _): &&(Arc<Pod>, Amounts)| {
        let place = preempted.victims.iter().position(|victim| victim.uid == pod.uid);
        let class = match pod.qos {
            QosClass::BestEffort => 0,
            QosClass::Burstable => 1,
            QosClass::Guaranteed => 2,
        };
        (place.unwrap_or(usize::MAX), !preemptable(&preempted.pod, pod), class)
    };
    let mut all: Vec<_> = preempted.candidates.iter().collect();
    all.sort_by_key(rank);
    all.into_iter().map(seen).collect()
}
