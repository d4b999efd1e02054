//! Text of a container's probe: its specification, its result, and when it runs next. Pure.

use std::time::Duration;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{Probe, ProbeRun};

use super::list::age;
use super::page::{Page, moment};
use crate::cli::format::{nanos, shorten, span};
use nodewarden_api::grpc::time;

/// Maximum number of lines shown of an output (which may have 10 KiB), and of characters per line.
const OUTPUT_LINES: usize = 5;
const OUTPUT_WIDTH: usize = 200;

/// Appends the probe to the page: its specification as in `kubectl describe`, and below it the results.
pub fn describe(out: &mut Page, probe: &Probe, now: Timestamp) {
    out.line(&probe.r#type, &probe.spec);
    out.indent += 1;
    if let Some(seconds) = probe.termination_grace_period_seconds {
        out.line("Grace", &format!("{seconds}s for a container that is killed because of it"));
    }
    out.line("Result", if probe.result.is_empty() { "none yet" } else { &probe.result });
    if let Some(last) = &probe.last {
        out.line("Last run", &last_run(probe, last, now));
        out.block("Output", &excerpt(&last.output));
    }
    if let Some(next) = probe.next.as_ref().and_then(time::to_timestamp) {
        let ahead = Duration::try_from(next.duration_since(now)).unwrap_or_default();
        let when = if ahead.is_zero() { "now".to_owned() } else { format!("in {}", span(ahead)) };
        out.line("Next", &format!("{} ({when})", moment(probe.next.as_ref())));
    }
    out.line("Waits for", &probe.waits_for);
    out.line("Runs", &runs(probe));
    out.indent -= 1;
}

fn last_run(probe: &Probe, last: &ProbeRun, now: Timestamp) -> String {
    let row = match last.outcome.as_str() {
        "error" => ", not counted".to_owned(),
        outcome => {
            let (verdict, threshold) = match outcome {
                "failure" => ("failure", probe.failure_threshold),
                _ => ("success", probe.success_threshold),
            };
            // A verdict below its threshold is not the result yet, so the threshold is shown.
            let of = if probe.result == verdict { String::new() } else { format!(" of {threshold}") };
            format!(", {}{of} in a row", probe.in_a_row)
        }
    };
    format!(
        "{} at {} ({} ago) in {}{row}",
        last.outcome,
        moment(last.begun.as_ref()),
        age(last.begun.as_ref(), now),
        nanos(last.took_ns)
    )
}

fn excerpt(output: &str) -> String {
    let all: Vec<&str> = output.trim().lines().collect();
    let left_out = all.len().saturating_sub(OUTPUT_LINES);
    let mut shown: Vec<String> =
        all.iter().take(OUTPUT_LINES).map(|line| shorten(line.trim_end(), OUTPUT_WIDTH)).collect();
    if left_out > 0 {
        shown.push(format!("({left_out} more lines)"));
    }
    shown.join("\n")
}

/// Number of runs by verdict since the pod exists; empty if there were none.
fn runs(probe: &Probe) -> String {
    let counts = [
        (probe.successful, "successful"),
        (probe.failed, "failed"),
        (probe.unknown, "that could not be executed"),
    ];
    let nonzero = counts.into_iter().filter(|(count, _)| *count > 0);
    nonzero.map(|(count, which)| format!("{count} {which}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    fn probe(result: &str, outcome: &str, in_a_row: u32) -> Probe {
        Probe {
            r#type: "Liveness".into(),
            spec: "tcp-socket :80 delay=0s".into(),
            success_threshold: 1,
            failure_threshold: 3,
            result: result.into(),
            last: Some(ProbeRun {
                begun: at(90),
                took_ns: 1_500_000,
                outcome: outcome.into(),
                output: String::new(),
            }),
            in_a_row,
            ..Probe::default()
        }
    }

    fn text(probe: &Probe) -> String {
        let mut page = Page { indent: 2, ..Page::default() };
        describe(&mut page, probe, Timestamp::from_second(100).unwrap());
        assert_eq!(page.indent, 2);
        page.text
    }

    #[test]
    fn the_number_of_runs_in_a_row_is_shown_with_the_threshold() {
        for (result, outcome, in_a_row, expected) in [
            ("success", "success", 40, "success at WHEN, 40 in a row"),
            ("success", "warning", 3, "warning at WHEN, 3 in a row"),
            ("success", "failure", 2, "failure at WHEN, 2 of 3 in a row"),
            ("failure", "failure", 5, "failure at WHEN, 5 in a row"),
            ("", "failure", 1, "failure at WHEN, 1 of 3 in a row"),
            ("success", "error", 40, "error at WHEN, not counted"),
        ] {
            let expected = expected.replace("WHEN", "1970-01-01T00:01:30.000Z (10s ago) in 1.5ms");
            let result_line = if result.is_empty() { "none yet" } else { result };
            assert_eq!(
                text(&probe(result, outcome, in_a_row)),
                format!(
                    "    Liveness:        tcp-socket :80 delay=0s\n      Result:        {result_line}\n      \
                     Last run:      {expected}\n"
                )
            );
        }
    }

    #[test]
    fn the_next_run_or_what_it_waits_for_is_shown() {
        let due = |next, waits_for: &str| {
            let probe = Probe { next, waits_for: waits_for.into(), last: None, ..probe("", "", 0) };
            text(&probe).lines().skip(2).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(due(at(103), ""), ["Next:          1970-01-01T00:01:43.000Z (in 3s)"]);
        assert_eq!(due(at(99), ""), ["Next:          1970-01-01T00:01:39.000Z (now)"]);
        assert_eq!(due(None, "its startup probe"), ["Waits for:     its startup probe"]);
        assert_eq!(due(None, ""), Vec::<String>::new());
    }

    #[test]
    fn a_long_output_is_cut_to_a_few_lines() {
        let mut own = probe("failure", "failure", 3);
        let lines: Vec<String> = (0..9).map(|n| format!("line {n}\x1b")).collect();
        own.last.as_mut().unwrap().output = format!("{}\n\n", lines.join("\r\n"));
        let shown = text(&own);
        assert!(
            shown.ends_with(
                "      Output:        line 0?
                     line 1?
                     line 2?
                     line 3?
                     line 4?
                     (4 more lines)\n"
            ),
            "{shown}"
        );
        own.last.as_mut().unwrap().output = "x".repeat(10_240);
        assert!(text(&own).lines().all(|line| line.chars().count() < 230), "{}", text(&own));
    }
}
