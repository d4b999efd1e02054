//! A startup probe holds the other two until it has succeeded, once; initial delays begin with the container.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::NEEDS;
use super::manifest::probe;
use super::site::Site;
use crate::harness::{Context, Failure, Test};
use crate::serve::Noted;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_startup_and_delays", startup).timeout(120).needs(NEEDS)];

const STARTUP: &str = "/file/up";
const READINESS: &str = "/ok?readiness";
const LIVENESS: &str = "/ok?liveness";
const DELAY_S: u64 = 3;
/// A container's first instructions come a little after its start, from which delays count.
const BEGINS: Duration = Duration::from_millis(700);
/// From a startup probe's success to the first run of readiness; without more it would be a period.
const AT_ONCE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

fn asked<'n>(notes: &'n [Noted], path: &str) -> Vec<&'n Noted> {
    notes.iter().filter(|note| note.path == path).collect()
}

fn since(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}

fn startup(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let [held, late] = [site.program.port()?, site.program.port()?];
    let startup = json!({ "failureThreshold": 1000 });
    let probes = json!({
        "startupProbe": probe(site.http(held, STARTUP), startup),
        // A period of its own, so that its first run tells of the startup probe's success.
        "readinessProbe": probe(site.http(held, READINESS), json!({ "periodSeconds": 5 })),
        "livenessProbe": probe(site.http(held, LIVENESS), json!({})),
    });
    let delayed = json!({ "readinessProbe": probe(site.http(late, READINESS), json!({ "initialDelaySeconds": DELAY_S })) });
    let pod = site.pod(
        "held",
        json!({ "containers": [
        site.http_server("held", "c", held, probes),
        site.http_server("held", "late", late, delayed),
    ] }),
    );
    site.stage.put([pod])?;
    site.until_noted("held", "c", "was not asked for its startup", 20, |notes| {
        (asked(notes, STARTUP).len() >= 4).then_some(())
    })?;
    let notes = site.noted("held", "c");
    for path in [READINESS, LIVENESS] {
        ensure_eq!(asked(&notes, path).len(), 0, "{path} was asked before the startup probe succeeded");
    }
    let seen = site.stage.pod("held")?.ok_or_else(|| Failure::Unexpected("the pod is gone".into()))?;
    let c = seen.container("c")?;
    ensure_eq!(
        (&c.0["started"], &c.0["ready"], c.restarts()),
        (&json!(false), &json!(false), 0),
        "started, ready, restarts"
    );

    site.program.answer("up", "/ok")?;
    site.stage.up("held")?;
    site.until_noted("held", "c", "is not asked whether it lives", 20, |notes| {
        (asked(notes, LIVENESS).len() >= 3).then_some(())
    })?;
    let notes = site.noted("held", "c");
    let up = asked(&notes, STARTUP);
    let succeeded: Vec<_> = up.iter().filter(|note| note.answer == "200").collect();
    ensure_eq!(succeeded.len(), 1, "successes of the startup probe");
    let success = succeeded[0].at;
    ensure!(up.last().is_some_and(|last| last.at == success), "the startup probe goes on after its success");
    let first = asked(&notes, READINESS)[0].at;
    let took = since(success, first);
    let bound = context.scaled(AT_ONCE);
    ensure!(
        first > success && took < bound,
        "readiness was first asked {took:?} after the startup probe's success"
    );
    let seen = site.stage.up("held")?;
    ensure_eq!(seen.container("c")?.0["started"], true, "started");

    // What waits for its delay was not asked before.
    let notes = site.noted("held", "late");
    let begun = notes.iter().find(|note| note.listener == "main").map(|note| note.at);
    let first = asked(&notes, READINESS).first().map(|note| note.at);
    let (Some(begun), Some(first)) = (begun, first) else {
        return Err(Failure::Unexpected(format!("no begin or no first run: {notes:?}")));
    };
    let (took, delay) = (since(begun, first), Duration::from_secs(DELAY_S));
    let latest = delay + context.patiently(2);
    ensure!(
        (delay - BEGINS..latest).contains(&took),
        "a probe with a delay of {delay:?} came {took:?} after the begin"
    );
    site.stage.finish()
}
