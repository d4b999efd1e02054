//! Evictions with an agent that is killed meanwhile.

use std::time::Duration;

use serde_json::json;

use super::NEEDS;
use super::fixture::{
    LEFT_MIB, PressureFixture, QUICK_RESTART, RunningPod, now, pool_config, requests, seconds,
};
use super::soft::soft;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_hard_survives_kill9", hard).timeout(180).needs(NEEDS),
    Test::new("eviction_soft_grace_survives_kill9", soft_grace).timeout(120).needs(NEEDS),
    Test::new("eviction_pod_grace_survives_kill9", pod_grace).timeout(150).needs(NEEDS),
];

/// MiB available at the hard threshold, in tests of the soft one.
const HARD_MIB: u64 = 80;

/// With the agent killed at any moment of an eviction, the pod is evicted once, starts again, and no other
/// pod is affected.
fn hard(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let pods = [("eater", 16), ("modest", 80), ("small", 0)];
    let pods = pods.map(|(name, mib)| {
        let resources = if mib > 0 { requests(mib) } else { json!({}) };
        fixture.greedy(name, resources, &[], json!({}))
    });
    let others = fixture.put_and_wait_up(pods)?.split_off(1);
    for round in 0..context.scaled([6u64, 2]) {
        let before = RunningPod::of(&fixture.pods.wait_up("eater")?)?;
        fixture.order_hold("eater", 280)?;
        std::thread::sleep(Duration::from_millis(40 * round));
        fixture.pods.kill_agent()?;
        fixture.pods.start_agent()?;
        // The pod is evicted, or runs again already; its previous container has ended in any case.
        let gone = fixture.pods.wait_until("eater", "evicted", 30, |pod| {
            pod.phase() == "Failed"
                || pod.container("c").is_ok_and(|c| !c.id().is_empty() && c.id() != before.container)
        })?;
        ensure!(
            gone.phase() != "Failed" || gone.text("/status/reason") == "Evicted",
            "failed for another reason: {}",
            gone.0["status"]
        );
        fixture.program.hold("eater", 0, 0)?;
        fixture.pods.kill_agent()?;
        fixture.pods.start_agent()?;
        let back = RunningPod::of(&fixture.pods.wait_until("eater", "running again", 30, |pod| {
            pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != before.container)
        })?)?;
        // One, as for a kubelet, if the agent was killed between the creation and the start of the container.
        ensure!(back.restarts <= 1, "restarts of the new container: {}", back.restarts);
        fixture.check_unchanged(&others)?;
    }
    ensure!(
        fixture.chosen("eviction")?.iter().all(|name| name == "eater"),
        "{:?}",
        fixture.chosen("eviction")
    );
    fixture.pods.finish()
}

/// The time for which a soft threshold has been met keeps counting over a kill: the pod is evicted neither
/// sooner
/// nor later.
fn soft_grace(context: &Context) -> Result<(), Failure> {
    const GRACE_S: u64 = 10;
    let mut fixture = PressureFixture::with_pool(context, HARD_MIB, &soft(GRACE_S, 5))?;
    let eater = fixture.greedy("eater", requests(16), &[], json!({}));
    fixture.put_and_wait_up([eater])?;
    let passed = now();
    fixture.hold("eater", 190)?;
    fixture.wait_condition("MemoryPressure", true, 10)?;
    std::thread::sleep(Duration::from_secs_f64((GRACE_S as f64 * 0.6 - seconds(passed, now())).max(0.0)));
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    let decision = eventually(context.patiently(2 * GRACE_S + 10), "no pod is evicted", || {
        Ok(fixture.carried_out("eviction")?.pop())
    })?;
    fixture.program.hold("eater", 0, 0)?;
    let after = seconds(passed, decision.time);
    ensure!(after >= GRACE_S as f64, "evicted {after:.1} s after its memory grew");
    // A grace period that started over with the agent would end after 16 s.
    ensure!(
        context.patience > 1 || after < GRACE_S as f64 * 1.5,
        "evicted only {after:.1} s after its memory grew"
    );
    fixture.wait_evicted("eater")?;
    fixture.pods.wait_up("eater")?;
    fixture.pods.finish()
}

/// With the agent killed while an evicted pod terminates, the pod's grace period continues, and the pod does
/// not start again before it has ended.
fn pod_grace(context: &Context) -> Result<(), Failure> {
    const POD_GRACE_S: u64 = 12;
    let mut fixture =
        PressureFixture::new(context, &pool_config(HARD_MIB, &soft(1, POD_GRACE_S))?, QUICK_RESTART)?;
    let long = json!({ "terminationGracePeriodSeconds": 60 });
    let lingers = fixture.greedy("lingers", requests(16), &["--stay", "60"], long);
    let before = fixture.put_and_wait_up([lingers])?.remove(0);
    fixture.hold("lingers", 190)?;
    let asked = eventually(context.patiently(20), "the pod is not asked to end", || {
        let noted = fixture.program.noted("lingers");
        Ok(noted.into_iter().find(|one| one.listener == "main" && one.answer == "term").map(|one| one.at))
    })?;
    for _ in 0..2 {
        fixture.pods.kill_agent()?;
        fixture.pods.start_agent()?;
        std::thread::sleep(Duration::from_secs(1));
    }
    let runs = |fixture: &PressureFixture<'_>| {
        let noted = fixture.program.noted("lingers");
        noted.iter().filter(|one| one.listener == "main" && one.answer == "started").count()
    };
    ensure_eq!(runs(&fixture), 1, "runs of the pod while it ends");
    let seen = fixture.wait_evicted("lingers")?;
    let message = seen.text("/status/message").to_owned();
    let gone = eventually(context.patiently(POD_GRACE_S + 15), "it does not end", || {
        let now = fixture.pods.pod("lingers")?;
        let over = now.is_some_and(|pod| {
            pod.container("c").is_ok_and(|c| c.terminated().is_some() || c.id() != before.container)
        });
        Ok(over.then(std::time::SystemTime::now))
    })?;
    fixture.program.hold("lingers", 0, 0)?;
    let took = gone.duration_since(asked).unwrap_or_default().as_secs_f64();
    ensure!(
        context.patience > 1 || took < POD_GRACE_S as f64 + 6.0,
        "it ended {took:.1} s after SIGTERM, with a grace period of {POD_GRACE_S} s"
    );
    ensure!(
        took > POD_GRACE_S as f64 - 2.0,
        "it ended {took:.1} s after SIGTERM, before its grace period of {POD_GRACE_S} s"
    );
    ensure!(message.contains("The node was low on resource: memory."), "{message:?}");
    let back = RunningPod::of(&fixture.pods.wait_until("lingers", "back", 40, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != before.container)
    })?)?;
    ensure_eq!((back.restarts, runs(&fixture)), (0, 2), "restarts, and number of runs");
    // Ends the pod at once, so that the test does not wait for its grace period.
    let leave = fixture.program.notes().join("lingers.leave");
    std::fs::write(&leave, "").map_err(Failure::file(&leave))?;
    fixture.pods.finish()
}
