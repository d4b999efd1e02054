//! Probes at the same time as slow commands.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::LONG_NEEDS;
use super::fixture::ProbeFixture;
use super::manifest::{exec, probe};
use crate::e2e::pods::manifest::{STAY, shell};
use crate::ensure;
use crate::fixture::NOTES;
use crate::harness::{Context, Failure, REPORTED, Test};

pub const TESTS: &[Test] =
    &[Test::new("probe_slow_commands_delay_no_other", delays).timeout(120).needs(LONG_NEEDS)];

/// Commands that the agent runs at the same time in this test.
const AT_ONCE: usize = 2;
/// Number of slow commands.
const SLOW: usize = 6;
/// Seconds of a command: longer than a period, so that the next run is due while one is in progress.
const COMMAND_S: &str = "1.5";
/// Runs of the quick probe that are measured.
const RUNS: usize = 8;
const PERIOD: Duration = Duration::from_secs(1);
/// How late a quick probe may start, on an ordinary and on an emulated machine.
const MAX_LATE: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(10)];

/// Slow command probes do not delay probes of other kinds, and no probe starts while its previous run is in
/// progress.
fn delays(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, &format!("probes: {{maxExec: {AT_ONCE}}}"))?;
    let port = fixture.program.port()?;
    let slow = |n: usize| {
        let name = format!("slow-{n}");
        let script = format!("echo begin >> {NOTES}/{name}; sleep {COMMAND_S}; echo end >> {NOTES}/{name}");
        let timeout = json!({ "timeoutSeconds": fixture.context().scaled([30, 300]) });
        let more = json!({ "volumeMounts": fixture.program.mounts(), "readinessProbe": probe(exec(&script), timeout) });
        shell(&name, STAY, more)
    };
    let quick = json!({ "readinessProbe": probe(fixture.http(port, "/ok"), json!({})) });
    let containers: Vec<Value> = std::iter::once(fixture.http_server("slow", "quick", port, quick))
        .chain((0..SLOW).map(slow))
        .collect();
    let pod = fixture.pod("slow", json!({ "containers": containers }));
    fixture.pods.put([pod])?;
    // Now each command has run once, and all of them wait for their turn.
    fixture.pods.wait_up("slow")?;
    let asked = || {
        fixture.notes_of("slow", "quick").into_iter().filter(|note| note.path == "/ok").collect::<Vec<_>>()
    };
    let before = asked().len();
    fixture.wait_notes("slow", "quick", "is not asked", 30, |_| {
        (asked().len() >= before + RUNS).then_some(())
    })?;
    let times: Vec<_> = asked().into_iter().skip(before).map(|note| note.at).collect();
    let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).unwrap_or_default());
    let widest = gaps.max().unwrap_or_default();
    println!(
        "{REPORTED}with {SLOW} slow commands, {AT_ONCE} at a time, http probes of 1 s were at most {widest:?} apart"
    );
    let bound = PERIOD + context.scaled(MAX_LATE);
    ensure!(widest < bound, "http probes were {widest:?} apart while commands were slow");

    for n in 0..SLOW {
        let path = fixture.program.notes().join(format!("slow-{n}"));
        let text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
        let lines: Vec<_> = text.lines().collect();
        let alternate = lines.iter().enumerate().all(|(i, line)| *line == ["begin", "end"][i % 2]);
        ensure!(alternate && lines.len() >= 3, "runs of one probe are not one after the other: {lines:?}");
    }
    fixture.pods.finish()
}
