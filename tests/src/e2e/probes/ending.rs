//! At a pod's end liveness and startup probes stop; readiness goes on until the container has ended, so that whoever sends
//! requests knows when it takes none any more.

use std::time::Duration;

use serde_json::json;

use super::NEEDS;
use super::manifest::probe;
use super::site::Site;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("probe_readiness_goes_on_to_the_end", ending).timeout(120).needs(NEEDS)];

const READINESS: &str = "/file/takes";
const LIVENESS: &str = "/ok?liveness";
const STARTUP: &str = "/bad?startup";
/// So long it goes on after SIGTERM, within its grace.
const STAYS_S: u64 = 6;
const GRACE_S: u64 = 30;
/// A run that was under way when the end came.
const UNDER_WAY: Duration = Duration::from_millis(300);

fn ending(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    site.program.answer("takes", "/ok")?;
    let [lively, starting] = [site.program.port()?, site.program.port()?];
    let arguments =
        |port: u16| ["--http", &port.to_string(), "--stay", &STAYS_S.to_string()].map(str::to_owned).to_vec();
    let grace = json!({ "terminationGracePeriodSeconds": GRACE_S });
    let mut pod = site.pod(
        "ends",
        json!({ "containers": [
        site.server("ends", "lively", &arguments(lively), json!({
            "readinessProbe": probe(site.http(lively, READINESS), json!({})),
            "livenessProbe": probe(site.http(lively, LIVENESS), site.delayed(json!({}))),
        })),
        site.server("ends", "starting", &arguments(starting), json!({
            "startupProbe": probe(site.http(starting, STARTUP), json!({ "failureThreshold": 1000 })),
        })),
    ] }),
    );
    pod["spec"] = crate::e2e::pods::manifest::merged(pod["spec"].take(), grace);
    site.stage.put([pod])?;
    for (container, path) in [("lively", LIVENESS), ("lively", READINESS), ("starting", STARTUP)] {
        site.until_noted("ends", container, "is not asked", 30, |notes| {
            (notes.iter().filter(|note| note.path == path).count() >= 2).then_some(())
        })?;
    }
    site.stage
        .until("ends", "ready", 20, |pod| pod.container("lively").is_ok_and(|c| c.0["ready"] == true))?;

    site.stage.remove("ends")?;
    site.until_noted("ends", "lively", "is not ended", 20, |notes| {
        notes.iter().any(|note| note.answer == "term").then_some(())
    })?;
    site.program.answer("takes", "/bad")?;
    let seen =
        eventually(context.patiently(STAYS_S), "it is ready while it refuses, until it is gone", || {
            let Some(pod) = site.stage.pod("ends")? else { return Ok(Some(false)) };
            Ok(pod.container("lively").is_ok_and(|c| c.is_running() && c.0["ready"] == false).then_some(true))
        })?;
    ensure!(seen, "the pod was gone before it was seen unready");
    site.stage.gone(&["ends"])?;
    for (container, path, most, least) in
        [("lively", LIVENESS, 0, 0), ("starting", STARTUP, 0, 0), ("lively", READINESS, usize::MAX, 3)]
    {
        let notes = site.noted("ends", container);
        let term = notes.iter().find(|note| note.answer == "term").map(|note| note.at + UNDER_WAY);
        let Some(term) = term else {
            return Err(Failure::Unexpected(format!("{container} was not asked to end")));
        };
        let later = notes.iter().filter(|note| note.path == path && note.at > term).count();
        ensure!((least..=most).contains(&later), "{path} was asked {later} times after SIGTERM");
        let ended = notes.last().map(|note| note.answer.as_str());
        ensure_eq!(ended, Some("end"), "the last note of {container}, which ends by itself");
    }
    site.stage.finish()
}
