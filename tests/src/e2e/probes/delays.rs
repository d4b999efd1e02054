//! Slow commands delay no other probe, and no probe overlaps itself.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::LONG_NEEDS;
use super::manifest::{exec, probe};
use super::site::Site;
use crate::e2e::pods::manifest::{STAY, shell};
use crate::ensure;
use crate::fixture::NOTES;
use crate::harness::{Context, Failure, REPORTED, Test};

pub const TESTS: &[Test] =
    &[Test::new("probe_slow_commands_delay_nobody", delays).timeout(120).needs(LONG_NEEDS)];

/// As many commands at a time as the agent allows here, and how many there are.
const AT_ONCE: usize = 2;
const SLOW: usize = 6;
/// Longer than a period: the next run is due while one is under way.
const COMMAND_S: &str = "1.5";
/// Runs of the quick probes that are looked at.
const RUNS: usize = 8;
const PERIOD: Duration = Duration::from_secs(1);
/// How much later than due a quick probe may begin. Emulated machines are slow by themselves.
const LATE: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(10)];

fn delays(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, &format!("probes: {{maxExec: {AT_ONCE}}}"))?;
    let port = site.program.port()?;
    let slow = |n: usize| {
        let name = format!("slow-{n}");
        let script = format!("echo begin >> {NOTES}/{name}; sleep {COMMAND_S}; echo end >> {NOTES}/{name}");
        let timeout = json!({ "timeoutSeconds": site.context().scaled([30, 300]) });
        let more =
            json!({ "volumeMounts": site.program.mounts(), "readinessProbe": probe(exec(&script), timeout) });
        shell(&name, STAY, more)
    };
    let quick = json!({ "readinessProbe": probe(site.http(port, "/ok"), json!({})) });
    let containers: Vec<Value> =
        std::iter::once(site.http_server("slow", "quick", port, quick)).chain((0..SLOW).map(slow)).collect();
    let pod = site.pod("slow", json!({ "containers": containers }));
    site.stage.put([pod])?;
    // Each command has run: all wait for their turn from now on.
    site.stage.up("slow")?;
    let asked =
        || site.noted("slow", "quick").into_iter().filter(|note| note.path == "/ok").collect::<Vec<_>>();
    let before = asked().len();
    site.until_noted("slow", "quick", "is not asked", 30, |_| {
        (asked().len() >= before + RUNS).then_some(())
    })?;
    let times: Vec<_> = asked().into_iter().skip(before).map(|note| note.at).collect();
    let gaps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).unwrap_or_default());
    let widest = gaps.max().unwrap_or_default();
    println!(
        "{REPORTED}beside {SLOW} slow commands, {AT_ONCE} at a time, http probes of 1 s were at most {widest:?} apart"
    );
    let bound = PERIOD + context.scaled(LATE);
    ensure!(widest < bound, "http probes were {widest:?} apart while commands were slow");

    for n in 0..SLOW {
        let path = site.program.notes().join(format!("slow-{n}"));
        let text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
        let lines: Vec<_> = text.lines().collect();
        let alternate = lines.iter().enumerate().all(|(i, line)| *line == ["begin", "end"][i % 2]);
        ensure!(alternate && lines.len() >= 3, "runs of one probe are not one after the other: {lines:?}");
    }
    site.stage.finish()
}
