//! Events of a run for the journal: every change of result, the first failure in a row, and the first warning
//! or error in a row. Pure.

use crate::probes::{Answer, ProbeState};
use nodewarden_manifest::ProbeSpec;
use nodewarden_model::{Outcome, Verdict};

/// Reasons of the events.
const UNHEALTHY: &str = "Unhealthy";
const HEALTHY: &str = "Healthy";
const WARNING: &str = "ProbeWarning";
const ERROR: &str = "ProbeError";

/// Maximum length of output in an event in bytes, as for messages of events in Kubernetes.
const LONGEST: usize = 1024;

/// Whether the previous run ended with a warning or an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Before {
    #[default]
    Nothing,
    Warning,
    Error,
}

pub type Events = Vec<(&'static str, String)>;

/// Events after a run with an answer. `probe_state` is the state of the probe after the run.
pub fn of_answer(
    spec: &ProbeSpec,
    probe_state: &ProbeState,
    change: Option<Verdict>,
    answer: &Answer,
    before: &mut Before,
) -> Events {
    let name = spec.kind.name();
    let mut events = Vec::new();
    let mut push = |reason, what: String| events.push((reason, sentence(name, &what, &answer.output)));
    let (run, threshold) = (probe_state.run, spec.failure_threshold);
    match (change, answer.outcome) {
        (Some(Verdict::Success), _) => push(HEALTHY, "succeeded".to_owned()),
        (Some(Verdict::Failure), _) if run > 1 => push(UNHEALTHY, format!("failed {run} times")),
        (Some(Verdict::Failure), _) => push(UNHEALTHY, "failed".to_owned()),
        (None, Outcome::Failure) if run == 1 && probe_state.result == Some(Verdict::Failure) => {
            push(UNHEALTHY, "failed again".to_owned());
        }
        (None, Outcome::Failure) if run == 1 => push(UNHEALTHY, format!("failed (1 of {threshold})")),
        _ => {}
    }
    let now = if answer.outcome == Outcome::Warning { Before::Warning } else { Before::Nothing };
    if now == Before::Warning && *before != now {
        push(WARNING, "warning".to_owned());
    }
    *before = now;
    events
}

/// Events after a run that failed because of the prober.
pub fn of_error(spec: &ProbeSpec, error: &str, before: &mut Before) -> Events {
    let first = std::mem::replace(before, Before::Error) != Before::Error;
    first.then(|| (ERROR, sentence(spec.kind.name(), "errored", error))).into_iter().collect()
}

fn sentence(name: &str, what: &str, output: &str) -> String {
    let output = output.trim();
    if output.is_empty() {
        return format!("{name} probe {what}");
    }
    match output.get(..output.floor_char_boundary(LONGEST)) {
        Some(begin) if begin.len() < output.len() => format!("{name} probe {what}: {begin}…"),
        _ => format!("{name} probe {what}: {output}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::engine::fixture::spec;
    use crate::probes::rules;
    use nodewarden_manifest::{HandlerKind, ProbeKind};

    #[test]
    fn each_change_of_a_result_is_one_event() {
        let mut spec = spec(ProbeKind::Readiness, HandlerKind::HttpGet);
        (spec.success_threshold, spec.failure_threshold) = (2, 3);
        let (mut probe_state, mut before) = (ProbeState::default(), Before::default());
        let steps: [(&str, &[(&str, &str)]); 21] = [
            ("F", &[("Unhealthy", "Readiness probe failed (1 of 3): said")]),
            ("F", &[]),
            ("F", &[("Unhealthy", "Readiness probe failed 3 times: said")]),
            ("F", &[]),
            ("S", &[]),
            ("F", &[("Unhealthy", "Readiness probe failed again: said")]),
            ("S", &[]),
            ("S", &[("Healthy", "Readiness probe succeeded: said")]),
            ("S", &[]),
            ("W", &[("ProbeWarning", "Readiness probe warning: said")]),
            ("W", &[]),
            ("S", &[]),
            ("W", &[("ProbeWarning", "Readiness probe warning: said")]),
            ("E", &[("ProbeError", "Readiness probe errored: broken")]),
            ("E", &[]),
            ("S", &[]),
            ("E", &[("ProbeError", "Readiness probe errored: broken")]),
            ("F", &[("Unhealthy", "Readiness probe failed (1 of 3): said")]),
            ("E", &[("ProbeError", "Readiness probe errored: broken")]),
            // An error in between does not interrupt a row.
            ("F", &[]),
            ("F", &[("Unhealthy", "Readiness probe failed 3 times: said")]),
        ];
        for (number, (run, wanted)) in steps.into_iter().enumerate() {
            let outcome = match run {
                "S" => Outcome::Success,
                "W" => Outcome::Warning,
                _ => Outcome::Failure,
            };
            let run_result = if run == "E" {
                of_error(&spec, "broken", &mut before)
            } else {
                let answer = Answer { outcome, output: "said\n".to_owned() };
                let change = rules::take(&spec, &mut probe_state, outcome.verdict());
                of_answer(&spec, &probe_state, change, &answer, &mut before)
            };
            let run_result: Vec<_> =
                run_result.iter().map(|(reason, message)| (*reason, message.as_str())).collect();
            assert_eq!(run_result, wanted, "step {number}");
        }
    }

    #[test]
    fn messages_are_trimmed_and_cut() {
        assert_eq!(sentence("Liveness", "failed", " \n"), "Liveness probe failed");
        assert_eq!(sentence("Liveness", "failed", "no\n"), "Liveness probe failed: no");
        let long = sentence("Liveness", "failed", &"€".repeat(400));
        assert_eq!(long, format!("Liveness probe failed: {}…", "€".repeat(341)));
        let whole = "x".repeat(LONGEST);
        assert_eq!(sentence("Liveness", "failed", &whole), format!("Liveness probe failed: {whole}"));
    }

    #[test]
    fn a_threshold_of_one_and_a_success_with_a_warning() {
        let mut spec = spec(ProbeKind::Liveness, HandlerKind::HttpGet);
        (spec.success_threshold, spec.failure_threshold) = (1, 1);
        let mut probe_state = ProbeState::default();
        let mut run_result = |outcome: Outcome| {
            let change = rules::take(&spec, &mut probe_state, outcome.verdict());
            let answer = Answer { outcome, output: String::new() };
            of_answer(&spec, &probe_state, change, &answer, &mut Before::default())
        };
        let healthy = (HEALTHY, "Liveness probe succeeded".to_owned());
        assert_eq!(run_result(Outcome::Warning), [healthy, (WARNING, "Liveness probe warning".to_owned())]);
        assert_eq!(run_result(Outcome::Failure), [(UNHEALTHY, "Liveness probe failed".to_owned())]);
    }
}
