//! Record of one decision while it is carried out: its steps with their times, for `nodewarden explain`.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use nodewarden_model::{CandidateSeen, Decision, DecisionStep, SignalSeen};

/// Collects the steps of a decision until [`DecisionLog::finish`].
pub struct DecisionLog {
    woken: Instant,
    decision: Decision,
}

impl DecisionLog {
    /// `woken` is when the engine was woken: times count from there. `dry_run`: nothing will be done.
    pub fn new(kind: &str, woken_by: &str, woken: Instant, dry_run: bool) -> Self {
        let decision = Decision {
            number: 0,
            time: before(Timestamp::now(), woken.elapsed()),
            kind: kind.to_owned(),
            would: dry_run,
            woken_by: woken_by.to_owned(),
            signals: Vec::new(),
            candidates: Vec::new(),
            steps: Vec::new(),
            outcome: String::new(),
        };
        Self { woken, decision }
    }

    /// Sets the readings that the decision is based on.
    pub fn record_signals(&mut self, signals: &[SignalSeen]) {
        self.decision.signals = signals.to_vec();
    }

    /// Sets the ranked candidates.
    pub fn record_candidates(&mut self, candidates: Vec<CandidateSeen>) {
        self.decision.candidates = candidates;
    }

    /// Adds a step that started at `began` and has just ended.
    pub fn record_step(&mut self, what: &str, began: Instant, result: impl Into<String>) {
        self.record_step_until(what, began, Instant::now(), result);
    }

    /// Adds a step that started at `began` and ended at `ended`.
    pub fn record_step_until(
        &mut self,
        what: &str,
        began: Instant,
        ended: Instant,
        result: impl Into<String>,
    ) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.decision.steps.push(DecisionStep {
            what: what.to_owned(),
            after_us: micros(began.saturating_duration_since(self.woken)),
            took_us: micros(ended.saturating_duration_since(began)),
            result: result.into(),
        });
    }

    /// The decision with the steps recorded up to now.
    pub fn snapshot(&self, outcome: &str) -> Decision {
        Decision { outcome: outcome.to_owned(), ..self.decision.clone() }
    }

    /// The decision with all steps.
    pub fn finish(mut self, outcome: impl Into<String>) -> Decision {
        self.decision.outcome = outcome.into();
        self.decision
    }
}

fn before(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_sub(time).unwrap_or(now)
}
