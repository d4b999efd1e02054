//! The agent is killed in the middle of it: nothing is cut short, nothing is forgotten, and nobody goes twice.

use std::time::Duration;

use serde_json::json;

use super::NEEDS;
use super::site::{Alive, LEFT_MIB, QUICK, Site, now, pool, requests, seconds};
use super::soft::soft;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_hard_and_kill9", hard).timeout(180).needs(NEEDS),
    Test::new("eviction_soft_grace_and_kill9", soft_grace).timeout(120).needs(NEEDS),
    Test::new("eviction_long_end_and_kill9", long_end).timeout(150).needs(NEEDS),
];

/// Left at the hard threshold where the soft one is the test's.
const HARD_MIB: u64 = 80;

/// Killed at any moment from just before the threshold is passed on.
fn hard(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let pods = [("eater", 16), ("modest", 80), ("small", 0)];
    let pods = pods.map(|(name, mib)| {
        let resources = if mib > 0 { requests(mib) } else { json!({}) };
        site.greedy(name, resources, &[], json!({}))
    });
    let others = site.up(pods)?.split_off(1);
    for round in 0..context.scaled([6u64, 2]) {
        let before = Alive::of(&site.stage.up("eater")?)?;
        site.ask("eater", 280)?;
        std::thread::sleep(Duration::from_millis(40 * round));
        site.stage.kill_agent()?;
        site.stage.start_agent()?;
        // Gone already, or going now; the run before is over in any case.
        let gone = site.stage.until("eater", "evicted", 30, |pod| {
            pod.phase() == "Failed"
                || pod.container("c").is_ok_and(|c| !c.id().is_empty() && c.id() != before.container)
        })?;
        ensure!(
            gone.phase() != "Failed" || gone.text("/status/reason") == "Evicted",
            "failed for another reason: {}",
            gone.0["status"]
        );
        site.program.hold("eater", 0, 0)?;
        site.stage.kill_agent()?;
        site.stage.start_agent()?;
        let back = Alive::of(&site.stage.until("eater", "back", 30, |pod| {
            pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != before.container)
        })?)?;
        ensure_eq!(back.restarts, 0, "restarts of a new run");
        site.unharmed(&others)?;
    }
    ensure!(site.chosen("eviction")?.iter().all(|name| name == "eater"), "{:?}", site.chosen("eviction"));
    site.stage.finish()
}

/// The time that a soft threshold has been passed for is neither forgotten nor taken for longer.
fn soft_grace(context: &Context) -> Result<(), Failure> {
    const GRACE_S: u64 = 10;
    let mut site = Site::with_pool(context, HARD_MIB, &soft(GRACE_S, 5))?;
    let eater = site.greedy("eater", requests(16), &[], json!({}));
    site.up([eater])?;
    let passed = now();
    site.hold("eater", 190)?;
    site.until_pressed("MemoryPressure", true, 10)?;
    std::thread::sleep(Duration::from_secs_f64((GRACE_S as f64 * 0.6 - seconds(passed, now())).max(0.0)));
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    let decision = eventually(context.patiently(2 * GRACE_S + 10), "nobody is evicted", || {
        Ok(site.acted("eviction")?.pop())
    })?;
    site.program.hold("eater", 0, 0)?;
    let after = seconds(passed, decision.time);
    ensure!(after >= GRACE_S as f64, "evicted {after:.1} s after its memory grew");
    // A time that began anew with the agent would be over after 16 s.
    ensure!(
        context.patience > 1 || after < GRACE_S as f64 * 1.5,
        "evicted only {after:.1} s after its memory grew"
    );
    site.evicted("eater")?;
    site.stage.up("eater")?;
    site.stage.finish()
}

/// Killed while an evicted pod ends: its time goes on, and it does not begin again before it has ended.
fn long_end(context: &Context) -> Result<(), Failure> {
    const POD_GRACE_S: u64 = 12;
    let mut site = Site::new(context, &pool(HARD_MIB, &soft(1, POD_GRACE_S))?, QUICK)?;
    let long = json!({ "terminationGracePeriodSeconds": 60 });
    let lingers = site.greedy("lingers", requests(16), &["--stay", "60"], long);
    let before = site.up([lingers])?.remove(0);
    site.hold("lingers", 190)?;
    let asked = eventually(context.patiently(20), "the pod is not asked to end", || {
        let noted = site.program.noted("lingers");
        Ok(noted.into_iter().find(|one| one.listener == "main" && one.answer == "term").map(|one| one.at))
    })?;
    for _ in 0..2 {
        site.stage.kill_agent()?;
        site.stage.start_agent()?;
        std::thread::sleep(Duration::from_secs(1));
    }
    let runs = |site: &Site<'_>| {
        let noted = site.program.noted("lingers");
        noted.iter().filter(|one| one.listener == "main" && one.answer == "started").count()
    };
    ensure_eq!(runs(&site), 1, "runs of the pod while it ends");
    let seen = site.evicted("lingers")?;
    let message = seen.text("/status/message").to_owned();
    let gone = eventually(context.patiently(POD_GRACE_S + 15), "it does not end", || {
        let now = site.stage.pod("lingers")?;
        let over = now.is_some_and(|pod| {
            pod.container("c").is_ok_and(|c| c.ended().is_some() || c.id() != before.container)
        });
        Ok(over.then(std::time::SystemTime::now))
    })?;
    site.program.hold("lingers", 0, 0)?;
    let took = gone.duration_since(asked).unwrap_or_default().as_secs_f64();
    ensure!(
        context.patience > 1 || took < POD_GRACE_S as f64 + 6.0,
        "it ended {took:.1} s after it was asked to, where it has {POD_GRACE_S}"
    );
    ensure!(took > POD_GRACE_S as f64 - 2.0, "it was given {took:.1} s of {POD_GRACE_S}");
    ensure!(message.contains("The node was low on resource: memory."), "{message:?}");
    let back = Alive::of(&site.stage.until("lingers", "back", 40, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != before.container)
    })?)?;
    ensure_eq!((back.restarts, runs(&site)), (0, 2), "restarts, and runs in all");
    // So that the test need not wait for it in the end.
    let leave = site.program.notes().join("lingers.leave");
    std::fs::write(&leave, "").map_err(Failure::file(&leave))?;
    site.stage.finish()
}
