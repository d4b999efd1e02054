//! Text of an eviction or preemption decision. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::format::{nanos, printable, span, time};
use super::measure::Measure;
use super::table::{Align, table};
use nodewarden_model::{CandidateSeen, Decision, DecisionStep, SignalSeen};

/// Number of candidates shown after the last one that was chosen; the others are only counted.
const AFTER: usize = 5;

/// Which candidates of a decision are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail<'a> {
    /// All of them.
    pub all: bool,
    /// This pod in any case: its uid, name or namespace/name.
    pub pod: Option<&'a str>,
}

/// The whole decision: time, outcome, signals, candidates and steps.
pub fn text(own: &Decision, detail: Detail<'_>, now: Timestamp) -> String {
    let (kind, woken) = (printable(&own.kind), printable(&own.woken_by));
    let at = time(own.time);
    let mut out = match own.number {
        0 => format!("Simulated at {at}, nothing was done: {kind}\n"),
        number => {
            let would = if own.would { ", nothing was done" } else { "" };
            format!(
                "Decision {number}, {} ago ({at}){would}: {kind}, woken by {woken}\n",
                since(own.time, now)
            )
        }
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "Outcome: {}", printable(&own.outcome));
    if !own.signals.is_empty() {
        let _ = write!(out, "\n{}", signals(&own.signals));
    }
    candidates(&mut out, own, detail);
    if !own.steps.is_empty() {
        let head = ["STEP", "AFTER", "TOOK", "RESULT"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(own.steps.iter().map(step)).collect();
        let _ = write!(out, "\n{}", table(&rows, &[Align::Left, Align::Right, Align::Right, Align::Left]));
    }
    out
}

/// A table of the thresholds and the readings compared with them.
pub fn signals(signals: &[SignalSeen]) -> String {
    let head = ["SIGNAL", "AVAILABLE", "THRESHOLD", "CAPACITY", "KIND", "PASSED"].map(str::to_owned).to_vec();
    let row = |own: &SignalSeen| {
        let figure = |n| Measure::of(&own.signal).amount(n);
        vec![
            printable(&own.signal),
            figure(own.available),
            figure(own.threshold),
            figure(own.capacity),
            match own.grace_ms {
                _ if own.hard => "hard".to_owned(),
                None => "soft".to_owned(),
                Some(grace) => format!("soft, after {}", millis(grace)),
            },
            match own.passed_for_ms {
                _ if !own.passed => "no".to_owned(),
                None => "yes".to_owned(),
                Some(time) => format!("for {}", millis(time)),
            },
        ]
    };
    let rows: Vec<_> = std::iter::once(head).chain(signals.iter().map(row)).collect();
    use Align::{Left, Right};
    table(&rows, &[Left, Right, Right, Right, Left, Left])
}

fn candidates(out: &mut String, own: &Decision, detail: Detail<'_>) {
    if own.candidates.is_empty() {
        return;
    }
    let measure = Measure::of(acted_on(own).map_or("", |signal| &signal.signal));
    let last = own.candidates.iter().rposition(|candidate| candidate.chosen);
    let until = last.map_or(0, |last| last + 1) + AFTER;
    let shown = |at: usize, candidate: &CandidateSeen| {
        detail.all || at < until || detail.pod.is_some_and(|pod| candidate.is(pod))
    };
    let of = if measure == Measure::OwnLimit { "LIMIT" } else { "REQUEST" };
    let head = ["ORDER", "POD", "QOS", "PRIORITY", "USAGE", of, "OVER", "DECISION"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut order = 0;
    for (at, candidate) in own.candidates.iter().enumerate() {
        order += usize::from(candidate.spared.is_empty());
        if shown(at, candidate) {
            rows.push(row(candidate, order, measure, own));
        }
    }
    let left_out = own.candidates.len() + 1 - rows.len();
    use Align::{Left, Right};
    let aligns = [Right, Left, Left, Right, Right, Right, Right, Left];
    let _ = write!(out, "\n{}", table(&rows, &aligns));
    if left_out > 0 {
        let _ = writeln!(out, "and {left_out} more: --all shows them");
    }
}

fn row(own: &CandidateSeen, order: usize, measure: Measure<'_>, decision: &Decision) -> Vec<String> {
    let name = match own.name.is_empty() {
        true => own.uid.clone(),
        false => format!("{}/{}", own.namespace, own.name),
    };
    let over = match own.usage.saturating_sub(own.request) {
        0 => "-".to_owned(),
        over => measure.amount(over),
    };
    let verb = if decision.kind == "preemption" { "preempted" } else { "evicted" };
    let usage = measure.amount(own.usage);
    let decision = match (own.chosen, own.spared.as_str()) {
        (true, _) if decision.would => format!("would be {verb}"),
        (true, _) => verb.to_owned(),
        (false, "") => "kept".to_owned(),
        (false, why) => format!("kept: {why}"),
    };
    vec![
        if own.spared.is_empty() { order.to_string() } else { "-".to_owned() },
        printable(&name),
        printable(&own.qos),
        own.priority.to_string(),
        // Not everything is counted yet.
        if own.incomplete { format!(">={usage}") } else { usage },
        measure.amount(own.request),
        over,
        printable(&decision),
    ]
}

fn step(own: &DecisionStep) -> Vec<String> {
    let micros = |n: u64| nanos(n.saturating_mul(1000));
    vec![printable(&own.what), micros(own.after_us), micros(own.took_us), printable(&own.result)]
}

/// The signal that the candidates' figures belong to: one whose grace period is over, hard before soft,
/// memory before others.
fn acted_on(own: &Decision) -> Option<&SignalSeen> {
    let due = |signal: &SignalSeen| signal.hard || signal.passed_for_ms >= signal.grace_ms;
    let passed = own.signals.iter().filter(|signal| signal.passed);
    passed.min_by_key(|own| (!due(own), !own.hard, !Measure::of(&own.signal).is_memory()))
}

/// Time since `at`; zero if the clock has been set back.
pub fn since(at: Timestamp, now: Timestamp) -> String {
    span(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

fn millis(n: u64) -> String {
    match n {
        0..1000 => format!("{n}ms"),
        n => span(Duration::from_millis(n)),
    }
}
