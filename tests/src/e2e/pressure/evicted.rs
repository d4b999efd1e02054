//! Evicted pods: their status, their restart when the pressure has ended, and the explanation.

use std::time::SystemTime;

use serde_json::json;

use super::NEEDS;
use super::fixture::{LEFT_MIB, NO_DISKS, PressureFixture, is_evicted, pool_config, requests};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_restarts_after_pressure", restarts).timeout(120).needs(NEEDS),
    Test::new("eviction_without_restart", stays_evicted).timeout(120).needs(NEEDS),
    Test::new("eviction_explained", explained).timeout(120).needs(NEEDS),
];

const GREED_MIB: u64 = 280;

/// An evicted pod starts again when the pressure has ended, after a back-off that doubles with each eviction.
fn restarts(context: &Context) -> Result<(), Failure> {
    let mut fixture =
        PressureFixture::new(context, &pool_config(LEFT_MIB, "")?, "eviction: {backOffSeconds: 3}")?;
    let eater = fixture.greedy("eater", requests(16), &[], json!({}));
    let before = fixture.put_and_wait_up([eater])?.remove(0);
    let mut evicted_for = Vec::new();
    for time in 1..=2 {
        fixture.order_hold("eater", GREED_MIB)?;
        fixture.wait_evicted("eater")?;
        let evicted_at = SystemTime::now();
        fixture.program.hold("eater", 0, 0)?;
        let back = fixture.pods.wait_until("eater", "running again", 60, |pod| pod.is_up())?;
        evicted_for.push(evicted_at.elapsed().unwrap_or_default());
        let c = back.container("c")?;
        ensure!(c.id() != before.container, "the same container runs again");
        ensure_eq!(c.restarts(), 0, "restarts of the new container");
        ensure_eq!(back.text("/status/reason"), "", "reason of a pod that runs again");
        ensure_eq!(fixture.chosen("eviction")?.len(), time, "evictions");
    }
    // A tenth less, for the time between the eviction and this reading.
    let minimum = [3.0, 6.0].map(|seconds| seconds * 0.9);
    for (evicted_for, minimum) in evicted_for.iter().zip(minimum) {
        ensure!(
            evicted_for.as_secs_f64() >= minimum,
            "evicted for {evicted_for:?}, not for at least {minimum} s"
        );
    }
    let notes = fixture.pods.notes("eater", "Evicted", fixture.begun)?;
    ensure_eq!(notes.len(), 2, "events of the evictions: {notes:?}");
    fixture.pods.finish()
}

/// With restartEvicted off an evicted pod stays Failed with its logs and without cgroup; a changed manifest
/// starts a new pod.
fn stays_evicted(context: &Context) -> Result<(), Failure> {
    let section = "eviction: {restartEvicted: false, backOffSeconds: 1}";
    let mut fixture = PressureFixture::new(context, &pool_config(LEFT_MIB, "")?, section)?;
    let pods = ["eater", "other"].map(|name| fixture.greedy(name, requests(16), &[], json!({})));
    let other = fixture.put_and_wait_up(pods)?.split_off(1);
    fixture.order_hold("eater", GREED_MIB)?;
    let seen = fixture.wait_evicted("eater")?;
    fixture.program.hold("eater", 0, 0)?;
    fixture.wait_condition("MemoryPressure", false, 30)?;
    std::thread::sleep(context.patiently(2));
    let later = fixture.wait_evicted("eater")?;
    let words = |pod: &crate::e2e::pods::listed::ListedPod| pod.text("/status/message").to_owned();
    ensure_eq!(words(&later), words(&seen), "the message, later");
    // Its logs are kept; its cgroup is removed.
    ensure!(fixture.pods.log_dir(&later).is_dir(), "its logs were removed");
    ensure!(fixture.pods.cgroup(&later).is_err(), "its cgroup is still there");
    fixture.check_unchanged(&other)?;
    // A changed manifest is another pod.
    let mut manifest = fixture.greedy("eater", requests(16), &[], json!({}));
    manifest["metadata"]["labels"] = json!({ "changed": "yes" });
    fixture.put_and_wait_up([manifest])?;
    fixture.pods.finish()
}

/// `nodewarden explain` shows why a pod was evicted, also under the next agent, and `status` shows the node's
/// conditions.
fn explained(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let pods = ["eater", "other"].map(|name| fixture.greedy(name, requests(16), &[], json!({})));
    fixture.put_and_wait_up(pods)?;
    let status = fixture.output_of(&["status"])?;
    ensure!(status.contains("MemoryPressure"), "no conditions in the status:\n{status}");
    fixture.order_hold("eater", GREED_MIB)?;
    // First: a runtime that needs long to end the pod does so after the transition period.
    fixture.wait_condition("MemoryPressure", true, 20)?;
    fixture.wait_evicted("eater")?;
    fixture.program.hold("eater", 0, 0)?;
    let decision = fixture.eviction_of("eater")?;
    for command in [&["explain", "eater"][..], &["explain", "default/eater"], &["explain", "node"]] {
        let text = fixture.output_of(command)?;
        for word in ["eviction", "allocatableMemory.available", "eater", "other", "kill", &decision.woken_by]
        {
            ensure!(text.contains(word), "{word:?} is not in what {command:?} prints:\n{text}");
        }
    }
    let unknown = fixture.pods.command(&["explain", "missing"])?;
    let text = String::from_utf8_lossy(&unknown.stdout);
    ensure!(
        !unknown.status.success() || text.contains("No decisions about missing"),
        "a pod that does not exist is explained: {text}"
    );
    // The next agent still knows the decision.
    fixture.wait_condition("MemoryPressure", false, 30)?;
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    let later = fixture.eviction_of("eater")?;
    ensure_eq!((later.number, later.time), (decision.number, decision.time), "the decision, later");
    let back = fixture.pods.wait_up("eater")?;
    ensure!(!is_evicted(&back), "it is still shown as evicted");
    // Setting one signal keeps the defaults of the others.
    fixture.pods.stop_agent();
    fixture.pods.set_kubelet(&format!("evictionHard: {{{NO_DISKS}}}\n"));
    fixture.pods.start_agent()?;
    eventually(context.patiently(10), "the default of memory.available is gone", || {
        let threshold =
            fixture.metric("nodewarden_eviction_signal_threshold", ("signal", "memory.available"))?;
        Ok((threshold == (100 << 20) as f64).then_some(()))
    })?;
    fixture.pods.finish()
}
