//! The order in which images are removed.

use std::time::Duration;

use super::NEEDS;
use super::fixture::{GcFixture, image, running_pod};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("gc_order_survives_agent_restart", survives_restart).timeout(120).needs(NEEDS)];

/// Longer than a period, so that each image is detected before the next is imported.
const DETECTED: Duration = Duration::from_millis(1600);

/// Images are removed least recently used first, also after the agent was killed; when that is not enough, a
/// failure is reported.
fn survives_restart(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, [85, 80], "", "gc: {periodSeconds: 1}")?;
    let pods = fixture.pods_after_import(&[9])?;
    let mut detected = Vec::new();
    for n in [0, 1, 2] {
        fixture.import(n)?;
        detected.push(fixture.id(&image(n))?);
        std::thread::sleep(DETECTED * context.patience);
    }
    // The image detected first is the one used last.
    fixture.pods.put([running_pod("user", &image(0))])?;
    fixture.pods.wait_up("user")?;
    std::thread::sleep(DETECTED * context.patience);
    fixture.pods.remove("user")?;
    fixture.pods.wait_gone(&["user"])?;
    std::thread::sleep(DETECTED * context.patience);
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    std::thread::sleep(DETECTED * context.patience);

    // More than removing all images can free.
    let filled = fixture.runtime.disk.fill_to("filler", 97);
    let filler = filled.map_err(Failure::file(fixture.runtime.disk.path()))?;
    eventually(context.patiently(30), "unused images are left", || {
        let images = fixture.images()?;
        Ok((!detected.iter().any(|id| images.contains(id))).then_some(()))
    })?;
    let removals = fixture.runtime.proxy.removals();
    let order: Vec<_> = removals.iter().filter(|one| detected.contains(&one.id)).map(|one| &one.id).collect();
    ensure_eq!(order, [&detected[1], &detected[2], &detected[0]], "order of removals");
    eventually(context.patiently(20), "there is no event FreeDiskSpaceFailed", || {
        Ok(fixture.events()?.contains("FreeDiskSpaceFailed").then_some(()))
    })?;
    ensure!(fixture.metric("nodewarden_gc_failures_total", ("", ""))? > 0.0, "no failure was counted");
    fixture.check_unharmed(&pods)?;
    std::fs::remove_file(&filler).map_err(Failure::file(&filler))?;
    fixture.pods.finish()
}
