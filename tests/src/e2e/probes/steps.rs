//! Thresholds are runs of equal results: a server answers by a script, and the container is ready at exactly the right steps.

use serde_json::json;

use super::NEEDS;
use super::manifest::probe;
use super::site::{Site, Told};
use crate::harness::{Context, Failure, Test};
use crate::serve::Noted;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_thresholds", thresholds).timeout(120).needs(NEEDS)];

/// By 3 successes and 2 failures: two successes are too few, a failure begins anew, the sixth step makes ready, single failures
/// do not end it, the tenth step does, and the thirteenth makes ready again.
const STEPS: &str = "/steps/thresholds/ok.ok.bad.ok.ok.ok.bad.ok.bad.bad.ok";
const READY: usize = 6;
const UNREADY: usize = 10;
const AGAIN: usize = 13;

fn thresholds(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let port = site.program.port()?;
    let readiness = probe(site.http(port, STEPS), json!({ "successThreshold": 3, "failureThreshold": 2 }));
    let pod = site.pod(
        "steps",
        json!({ "containers": [
        site.http_server("steps", "c", port, json!({ "readinessProbe": readiness })),
    ] }),
    );
    site.stage.put([pod])?;
    let asked = |notes: &[Noted]| notes.iter().filter(|note| note.path == STEPS).count();
    // Between these steps nothing may change: the pod is asked when the step before is surely published.
    for (step, ready) in [(READY - 1, false), (READY + 1, true), (UNREADY + 1, false), (AGAIN + 1, true)] {
        site.until_noted("steps", "c", "was not asked often enough", 30, |notes| {
            (asked(notes) >= step).then_some(())
        })?;
        let seen = site.stage.pod("steps")?.ok_or_else(|| Failure::Unexpected("the pod is gone".into()))?;
        // Unless so much time went by that the next steps came.
        if asked(&site.noted("steps", "c")) == step {
            ensure_eq!(seen.container("c")?.0["ready"], ready, "ready after {step} steps");
        }
    }
    let told = site.told_of("steps", "c", &["Healthy", "Unhealthy"])?;
    let notes = site.noted("steps", "c");
    let steps: Vec<_> = notes.iter().filter(|note| note.path == STEPS).collect();
    let after = |step: usize, told: &Told| {
        steps[step - 1].at <= told.at && steps.get(step).is_none_or(|next| told.at <= next.at)
    };
    let healthy: Vec<_> = told.iter().filter(|told| told.reason == "Healthy").collect();
    ensure_eq!(healthy.len(), 2, "changes to ready: {told:?}");
    ensure!(
        after(READY, healthy[0]) && after(AGAIN, healthy[1]),
        "it was told ready at other steps: {healthy:?}, {steps:?}"
    );
    let unhealthy = told.iter().any(|told| told.reason == "Unhealthy" && after(UNREADY, told));
    ensure!(unhealthy, "nothing was told after step {UNREADY}: {told:?}");
    site.stage.finish()
}
