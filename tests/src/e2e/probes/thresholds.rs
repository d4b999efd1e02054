//! Success and failure thresholds.

use serde_json::json;

use super::NEEDS;
use super::fixture::{ProbeEvent, ProbeFixture};
use super::manifest::probe;
use crate::harness::{Context, Failure, Test};
use crate::serve::Noted;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_thresholds", thresholds).timeout(120).needs(NEEDS)];

/// With thresholds of 3 successes and 2 failures: two successes are too few, a failure starts over, the sixth
/// step makes the container ready, single failures do not change that, the tenth step makes it unready, and
/// the thirteenth ready again.
const STEPS: &str = "/steps/thresholds/ok.ok.bad.ok.ok.ok.bad.ok.bad.bad.ok";
const READY: usize = 6;
const UNREADY: usize = 10;
const AGAIN: usize = 13;

/// A container becomes ready and unready at exactly the run at which the threshold of equal results is
/// reached.
fn thresholds(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    let port = fixture.program.port()?;
    let readiness = probe(fixture.http(port, STEPS), json!({ "successThreshold": 3, "failureThreshold": 2 }));
    let pod = fixture.pod(
        "steps",
        json!({ "containers": [
        fixture.http_server("steps", "c", port, json!({ "readinessProbe": readiness })),
    ] }),
    );
    fixture.pods.put([pod])?;
    let requests = |notes: &[Noted]| notes.iter().filter(|note| note.path == STEPS).count();
    // Readiness is read one step later than each change, when the change is surely published.
    for (step, ready) in [(READY - 1, false), (READY + 1, true), (UNREADY + 1, false), (AGAIN + 1, true)] {
        fixture.wait_notes("steps", "c", "was not probed often enough", 30, |notes| {
            (requests(notes) >= step).then_some(())
        })?;
        let seen = fixture.pods.pod("steps")?.ok_or_else(|| Failure::Unexpected("the pod is gone".into()))?;
        // Skipped if the next step has come meanwhile.
        if requests(&fixture.notes_of("steps", "c")) == step {
            ensure_eq!(seen.container("c")?.0["ready"], ready, "ready after {step} steps");
        }
    }
    let events = fixture.events_of("steps", "c", &["Healthy", "Unhealthy"])?;
    let notes = fixture.notes_of("steps", "c");
    let steps: Vec<_> = notes.iter().filter(|note| note.path == STEPS).collect();
    let after = |step: usize, event: &ProbeEvent| {
        steps[step - 1].at <= event.at && steps.get(step).is_none_or(|next| event.at <= next.at)
    };
    let healthy: Vec<_> = events.iter().filter(|event| event.reason == "Healthy").collect();
    ensure_eq!(healthy.len(), 2, "changes to ready: {events:?}");
    ensure!(
        after(READY, healthy[0]) && after(AGAIN, healthy[1]),
        "Healthy was reported at other steps: {healthy:?}, {steps:?}"
    );
    let unhealthy = events.iter().any(|event| event.reason == "Unhealthy" && after(UNREADY, event));
    ensure!(unhealthy, "Unhealthy was not reported after step {UNREADY}: {events:?}");
    fixture.pods.finish()
}
