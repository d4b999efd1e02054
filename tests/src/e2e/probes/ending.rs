//! Probes while a pod terminates.

use std::time::Duration;

use serde_json::json;

use super::NEEDS;
use super::fixture::ProbeFixture;
use super::manifest::probe;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("probe_readiness_runs_until_the_end", ending).timeout(120).needs(NEEDS)];

const READINESS: &str = "/file/takes";
const LIVENESS: &str = "/ok?liveness";
const STARTUP: &str = "/bad?startup";
/// Seconds that the server runs after SIGTERM, within its grace period.
const STAYS_S: u64 = 6;
const GRACE_S: u64 = 30;
/// Time after SIGTERM in which a run that was in progress may still arrive.
const IN_PROGRESS: Duration = Duration::from_millis(300);

/// When a pod terminates its liveness and startup probes stop, and readiness probes go on until the container
/// has ended, so that clients see when it takes no more requests.
fn ending(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    fixture.program.answer("takes", "/ok")?;
    let [lively, starting] = [fixture.program.port()?, fixture.program.port()?];
    let arguments =
        |port: u16| ["--http", &port.to_string(), "--stay", &STAYS_S.to_string()].map(str::to_owned).to_vec();
    let grace = json!({ "terminationGracePeriodSeconds": GRACE_S });
    let mut pod = fixture.pod(
        "ends",
        json!({ "containers": [
        fixture.server("ends", "lively", &arguments(lively), json!({
            "readinessProbe": probe(fixture.http(lively, READINESS), json!({})),
            "livenessProbe": probe(fixture.http(lively, LIVENESS), fixture.delayed(json!({}))),
        })),
        fixture.server("ends", "starting", &arguments(starting), json!({
            "startupProbe": probe(fixture.http(starting, STARTUP), json!({ "failureThreshold": 1000 })),
        })),
    ] }),
    );
    pod["spec"] = crate::e2e::pods::manifest::merged(pod["spec"].take(), grace);
    fixture.pods.put([pod])?;
    for (container, path) in [("lively", LIVENESS), ("lively", READINESS), ("starting", STARTUP)] {
        fixture.wait_notes("ends", container, "is not asked", 30, |notes| {
            (notes.iter().filter(|note| note.path == path).count() >= 2).then_some(())
        })?;
    }
    fixture
        .pods
        .wait_until("ends", "ready", 20, |pod| pod.container("lively").is_ok_and(|c| c.0["ready"] == true))?;

    fixture.pods.remove("ends")?;
    fixture.wait_notes("ends", "lively", "got no SIGTERM", 20, |notes| {
        notes.iter().any(|note| note.answer == "term").then_some(())
    })?;
    fixture.program.answer("takes", "/bad")?;
    let seen = eventually(
        context.patiently(STAYS_S),
        "the pod stays ready though it refuses, until its end",
        || {
            let Some(pod) = fixture.pods.pod("ends")? else { return Ok(Some(false)) };
            Ok(pod.container("lively").is_ok_and(|c| c.is_running() && c.0["ready"] == false).then_some(true))
        },
    )?;
    ensure!(seen, "the pod ended before it was seen unready");
    fixture.pods.wait_gone(&["ends"])?;
    for (container, path, most, least) in
        [("lively", LIVENESS, 0, 0), ("starting", STARTUP, 0, 0), ("lively", READINESS, usize::MAX, 3)]
    {
        let notes = fixture.notes_of("ends", container);
        let term = notes.iter().find(|note| note.answer == "term").map(|note| note.at + IN_PROGRESS);
        let Some(term) = term else {
            return Err(Failure::Unexpected(format!("{container} got no SIGTERM")));
        };
        let later = notes.iter().filter(|note| note.path == path && note.at > term).count();
        ensure!((least..=most).contains(&later), "{path} was asked {later} times after SIGTERM");
        let ended = notes.last().map(|note| note.answer.as_str());
        ensure_eq!(ended, Some("end"), "the last note of {container}, which ends by itself");
    }
    fixture.pods.finish()
}
