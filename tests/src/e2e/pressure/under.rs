//! The condition MemoryPressure and its transition period.

use serde_json::json;

use super::NEEDS;
use super::fixture::{self, LEFT_MIB, PressureFixture, critical, now, pool_config, requests, seconds};
use crate::e2e::pods::manifest::{STAY, merged, one};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_transition_period", transition).timeout(150).needs(NEEDS)];

/// Seconds that the condition stays after its cause has ended.
const TRANSITION_S: u64 = 8;
const GREED_MIB: u64 = 280;

/// MemoryPressure stays for the transition period, also over a restart of the agent; meanwhile BestEffort
/// pods wait, while Burstable and critical ones start.
fn transition(context: &Context) -> Result<(), Failure> {
    let usual = format!("evictionPressureTransitionPeriod: {}s", fixture::TRANSITION_S);
    let own = format!("evictionPressureTransitionPeriod: {TRANSITION_S}s");
    let kubelet = pool_config(LEFT_MIB, "")?.replace(&usual, &own);
    ensure!(kubelet.contains(&own), "the period is not set: {kubelet}");
    let mut fixture = PressureFixture::new(context, &kubelet, "eviction: {backOffSeconds: 1}")?;
    let eater = fixture.greedy("eater", requests(16), &[], json!({}));
    fixture.put_and_wait_up([eater])?;
    ensure!(
        !fixture.has_condition("MemoryPressure")?,
        "the node is under pressure before any memory is used"
    );
    let caused_at = now();
    fixture.order_hold("eater", GREED_MIB)?;
    fixture.wait_evicted("eater")?;
    let evicted_at = now();
    fixture.program.hold("eater", 0, 0)?;
    ensure!(fixture.has_condition("MemoryPressure")?, "MemoryPressure is not shown");
    // BestEffort pods are not admitted, unless critical; others are.
    let pod = |name: &str, resources, spec| {
        let mut pod = one(name, STAY, json!({ "resources": resources }));
        pod["spec"] = merged(pod["spec"].clone(), spec);
        pod
    };
    let waiting = [pod("best-effort", json!({}), json!({}))];
    fixture.pods.put(waiting)?;
    fixture.put_and_wait_up([
        pod("burstable", json!({ "requests": { "memory": "16Mi" } }), json!({})),
        pod("critical", json!({}), critical()),
    ])?;
    let seen = fixture.pods.wait_until("best-effort", "waiting", 10, |pod| {
        pod.phase() == "Pending" && !pod.text("/status/reason").is_empty()
    })?;
    ensure!(seen.text("/status/message").contains("MemoryPressure"), "it waits for {}", seen.0["status"]);
    // The condition survives a restart of the agent in the middle of the period.
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    let elapsed = seconds(evicted_at, now());
    if elapsed < TRANSITION_S as f64 - 1.0 {
        ensure!(
            fixture.has_condition("MemoryPressure")?,
            "the condition is gone {elapsed:.1} s after the eviction"
        );
        ensure!(fixture.pods.pod("best-effort")?.is_some_and(|pod| !pod.is_up()), "it runs under pressure");
    }
    fixture.wait_condition("MemoryPressure", false, TRANSITION_S + 15)?;
    let (over, lasted) = (seconds(evicted_at, now()), seconds(caused_at, now()));
    ensure!(lasted >= TRANSITION_S as f64, "the condition was over {lasted:.1} s after its cause began");
    ensure!(
        context.patience > 1 || over < TRANSITION_S as f64 + 8.0,
        "the condition was over only {over:.1} s after the eviction"
    );
    fixture.pods.wait_up("best-effort")?;
    fixture.pods.wait_up("eater")?;
    ensure_eq!(fixture.chosen("eviction")?, ["eater"], "chosen pods");
    fixture.pods.finish()
}
