//! Which image goes first, also when the agent was killed in between, and what is said when all that may go is not enough.

use std::time::Duration;

use super::NEEDS;
use super::site::{Site, image, stays};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("gc_order_outlives_the_agent", outlives_the_agent).timeout(120).needs(NEEDS)];

/// More than a period: each image is seen before the next comes.
const SEEN: Duration = Duration::from_millis(1600);

fn outlives_the_agent(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, [85, 80], "", "gc: {periodSeconds: 1}")?;
    let pods = site.pods_after_import(&[9])?;
    let mut detected = Vec::new();
    for n in [0, 1, 2] {
        site.import(n)?;
        detected.push(site.id(&image(n))?);
        std::thread::sleep(SEEN * context.patience);
    }
    // The first to be seen is the last to be used.
    site.stage.put([stays("user", &image(0))])?;
    site.stage.up("user")?;
    std::thread::sleep(SEEN * context.patience);
    site.stage.remove("user")?;
    site.stage.gone(&["user"])?;
    std::thread::sleep(SEEN * context.patience);
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    std::thread::sleep(SEEN * context.patience);

    // So much that all of them together are not enough.
    let filled = site.ground.disk.fill_to("filler", 97);
    let filler = filled.map_err(Failure::file(site.ground.disk.path()))?;
    eventually(context.patiently(30), "not all that is unused was removed", || {
        let images = site.images()?;
        Ok((!detected.iter().any(|id| images.contains(id))).then_some(()))
    })?;
    let removals = site.ground.proxy.removals();
    let order: Vec<_> = removals.iter().filter(|one| detected.contains(&one.id)).map(|one| &one.id).collect();
    ensure_eq!(order, [&detected[1], &detected[2], &detected[0]], "order of removals");
    eventually(context.patiently(20), "nobody was told that too little was freed", || {
        Ok(site.events()?.contains("FreeDiskSpaceFailed").then_some(()))
    })?;
    ensure!(site.metric("nodewarden_gc_failures_total", ("", ""))? > 0.0, "no failure was counted");
    site.all_well(&pods)?;
    std::fs::remove_file(&filler).map_err(Failure::file(&filler))?;
    site.stage.finish()
}
