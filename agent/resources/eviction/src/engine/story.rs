//! One decision as it is made: what was done when, for `nodewarden explain`.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use nodewarden_model::{CandidateSeen, Decision, DecisionStep, SignalSeen};

/// Grows with what is done until it is told.
pub struct Story {
    woken: Instant,
    decision: Decision,
}

impl Story {
    /// `woken`: when the word came that something may have to be done; times count from there.
    pub fn new(kind: &str, woken_by: &str, woken: Instant, would: bool) -> Self {
        let decision = Decision {
            number: 0,
            time: before(Timestamp::now(), woken.elapsed()),
            kind: kind.to_owned(),
            would,
            woken_by: woken_by.to_owned(),
            signals: Vec::new(),
            candidates: Vec::new(),
            steps: Vec::new(),
            outcome: String::new(),
        };
        Self { woken, decision }
    }

    pub fn saw(&mut self, signals: &[SignalSeen]) {
        self.decision.signals = signals.to_vec();
    }

    pub fn ranked(&mut self, candidates: Vec<CandidateSeen>) {
        self.decision.candidates = candidates;
    }

    /// Something that began then is done now.
    pub fn step(&mut self, what: &str, began: Instant, result: impl Into<String>) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.decision.steps.push(DecisionStep {
            what: what.to_owned(),
            after_us: micros(began.saturating_duration_since(self.woken)),
            took_us: micros(began.elapsed()),
            result: result.into(),
        });
    }

    /// The decision as far as it is made.
    pub fn so_far(&self, outcome: &str) -> Decision {
        Decision { outcome: outcome.to_owned(), ..self.decision.clone() }
    }

    pub fn end(mut self, outcome: impl Into<String>) -> Decision {
        self.decision.outcome = outcome.into();
        self.decision
    }
}

fn before(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_sub(time).unwrap_or(now)
}
