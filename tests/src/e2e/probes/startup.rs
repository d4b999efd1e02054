//! Startup probes and initial delays.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::NEEDS;
use super::fixture::ProbeFixture;
use super::manifest::probe;
use crate::harness::{Context, Failure, Test};
use crate::serve::Noted;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_startup_and_delays", startup).timeout(120).needs(NEEDS)];

const STARTUP: &str = "/file/up";
const READINESS: &str = "/ok?readiness";
const LIVENESS: &str = "/ok?liveness";
const DELAY_S: u64 = 3;
/// Time from a container's start, from which delays count, to its first instructions.
const FIRST_INSTRUCTIONS: Duration = Duration::from_millis(700);
/// Maximum time from a startup probe's success to the first run of readiness, far below a period.
const AT_ONCE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// The noted requests for this path.
fn requests<'n>(notes: &'n [Noted], path: &str) -> Vec<&'n Noted> {
    notes.iter().filter(|note| note.path == path).collect()
}

/// Time between two moments; zero if they are in the other order.
fn since(earlier: SystemTime, later: SystemTime) -> Duration {
    later.duration_since(earlier).unwrap_or_default()
}

/// Readiness and liveness are not probed before the startup probe has succeeded, which then stops, and
/// readiness follows at once; an initial delay counts from the container's start.
fn startup(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    let [held, late] = [fixture.program.port()?, fixture.program.port()?];
    let startup = json!({ "failureThreshold": 1000 });
    let probes = json!({
        "startupProbe": probe(fixture.http(held, STARTUP), startup),
        // A longer period, so that an early first run can only come from the startup probe's success.
        "readinessProbe": probe(fixture.http(held, READINESS), json!({ "periodSeconds": 5 })),
        "livenessProbe": probe(fixture.http(held, LIVENESS), json!({})),
    });
    let delayed = json!({ "readinessProbe": probe(fixture.http(late, READINESS), json!({ "initialDelaySeconds": DELAY_S })) });
    let pod = fixture.pod(
        "held",
        json!({ "containers": [
        fixture.http_server("held", "c", held, probes),
        fixture.http_server("held", "late", late, delayed),
    ] }),
    );
    fixture.pods.put([pod])?;
    fixture.wait_notes("held", "c", "was not probed for its startup", 20, |notes| {
        (requests(notes, STARTUP).len() >= 4).then_some(())
    })?;
    let notes = fixture.notes_of("held", "c");
    for path in [READINESS, LIVENESS] {
        ensure_eq!(requests(&notes, path).len(), 0, "requests for {path} before the startup probe succeeded");
    }
    let seen = fixture.pods.pod("held")?.ok_or_else(|| Failure::Unexpected("the pod is gone".into()))?;
    let c = seen.container("c")?;
    ensure_eq!(
        (&c.0["started"], &c.0["ready"], c.restarts()),
        (&json!(false), &json!(false), 0),
        "started, ready, restarts"
    );

    fixture.program.answer("up", "/ok")?;
    fixture.pods.wait_up("held")?;
    fixture.wait_notes("held", "c", "is not probed for liveness", 20, |notes| {
        (requests(notes, LIVENESS).len() >= 3).then_some(())
    })?;
    let notes = fixture.notes_of("held", "c");
    let up = requests(&notes, STARTUP);
    let succeeded: Vec<_> = up.iter().filter(|note| note.answer == "200").collect();
    ensure_eq!(succeeded.len(), 1, "successes of the startup probe");
    let success = succeeded[0].at;
    ensure!(
        up.last().is_some_and(|last| last.at == success),
        "the startup probe runs again after its success"
    );
    let first = requests(&notes, READINESS)[0].at;
    let took = since(success, first);
    let bound = context.scaled(AT_ONCE);
    ensure!(
        first > success && took < bound,
        "readiness was first probed {took:?} after the startup probe's success"
    );
    let seen = fixture.pods.wait_up("held")?;
    ensure_eq!(seen.container("c")?.0["started"], true, "started");

    // The probe with an initial delay did not run earlier.
    let notes = fixture.notes_of("held", "late");
    let begun = notes.iter().find(|note| note.listener == "main").map(|note| note.at);
    let first = requests(&notes, READINESS).first().map(|note| note.at);
    let (Some(begun), Some(first)) = (begun, first) else {
        return Err(Failure::Unexpected(format!("no start or no first run: {notes:?}")));
    };
    let (took, delay) = (since(begun, first), Duration::from_secs(DELAY_S));
    let latest = delay + context.patiently(2);
    ensure!(
        (delay - FIRST_INSTRUCTIONS..latest).contains(&took),
        "a probe with a delay of {delay:?} ran {took:?} after the start"
    );
    fixture.pods.finish()
}
