//! Soft eviction thresholds.

use serde_json::json;

use super::NEEDS;
use super::fixture::{PressureFixture, now, pool_config, requests, seconds};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_soft_after_grace_period", after_grace).timeout(150).needs(NEEDS),
    Test::new("eviction_hard_during_soft_eviction", hard_during_soft).timeout(120).needs(NEEDS),
];

/// MiB available at the hard threshold.
const HARD_MIB: u64 = 80;
/// MiB available at the soft threshold.
const SOFT_MIB: u64 = 250;
/// Seconds for which the soft threshold must be met.
const GRACE_S: u64 = 4;

/// Configuration of the soft threshold with its grace period; `pod_grace` is the most that evicted pods may
/// take to end. Both are seconds.
pub fn soft(grace: u64, pod_grace: u64) -> String {
    format!(
        "evictionSoft: {{allocatableMemory.available: {SOFT_MIB}Mi}}\n\
         evictionSoftGracePeriod: {{allocatableMemory.available: {grace}s}}\n\
         evictionMaxPodGracePeriod: {pod_grace}\n"
    )
}

/// A pod is evicted only after the threshold was met for the whole grace period without a break, and then
/// terminates gracefully.
fn after_grace(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, HARD_MIB, &soft(GRACE_S, 5))?;
    let eater = fixture.greedy("eater", requests(16), &[], json!({ "terminationGracePeriodSeconds": 30 }));
    let other = fixture.greedy("other", requests(64), &[], json!({}));
    let other = fixture.put_and_wait_up([other])?;
    let before = fixture.put_and_wait_up([eater])?;
    // Met for too short a time: no pod is evicted, and the time starts over.
    fixture.hold("eater", 190)?;
    fixture.wait_condition("MemoryPressure", true, 10)?;
    fixture.hold("eater", 0)?;
    std::thread::sleep(std::time::Duration::from_secs(GRACE_S + 1));
    fixture.check_unchanged(&before)?;
    let met_at = now();
    fixture.hold("eater", 190)?;
    fixture.wait_evicted("eater")?;
    fixture.program.hold("eater", 0, 0)?;
    let decision = fixture.eviction_of("eater")?;
    let after = seconds(met_at, decision.time);
    ensure!(after >= GRACE_S as f64, "evicted {after} s after its memory grew");
    let soft = decision.signals.iter().find(|one| !one.hard && one.passed);
    ensure_eq!(soft.and_then(|one| one.grace_ms), Some(GRACE_S * 1000), "grace period of the signal");
    ensure!(
        soft.and_then(|one| one.passed_for_ms) >= Some(GRACE_S * 1000),
        "time for which the threshold was met: {soft:?}"
    );
    let noted = fixture.program.noted("eater");
    let ended = noted.iter().any(|one| one.listener == "main" && one.answer == "end");
    ensure!(ended, "the pod did not terminate gracefully");
    println!("{REPORTED}{after:.2} s after its memory grew, of which {GRACE_S} s are the grace period");
    fixture.check_unchanged(&other)?;
    ensure_eq!(fixture.chosen("eviction")?, ["eater"], "chosen pods");
    fixture.pods.finish()
}

/// The hard threshold takes effect at once while a softly evicted pod is still terminating.
fn hard_during_soft(context: &Context) -> Result<(), Failure> {
    let fixture = PressureFixture::new(
        context,
        &pool_config(HARD_MIB, &soft(1, 60))?,
        // A back-off so long that evicted pods do not start again during the test.
        "eviction: {backOffSeconds: 60}",
    );
    let mut fixture = fixture?;
    let long = json!({ "terminationGracePeriodSeconds": 60 });
    let lingers = fixture.greedy("lingers", requests(16), &["--stay", "60"], long);
    let eater = fixture.greedy("eater", requests(16), &[], json!({}));
    fixture.put_and_wait_up([lingers, eater])?;
    fixture.hold("lingers", 170)?;
    eventually(context.patiently(20), "the pod above the soft threshold is not asked to end", || {
        let noted = fixture.program.noted("lingers");
        Ok(noted.iter().any(|one| one.listener == "main" && one.answer == "term").then_some(()))
    })?;
    let grown = now();
    fixture.order_hold("eater", 170)?;
    // One of them is killed at once: the terminating pod, or the other one by another eviction.
    let hard = eventually(context.patiently(10), "the hard threshold waits for the soft one", || {
        let acted = fixture.carried_out("eviction")?;
        Ok(acted.into_iter().find(|one| one.time >= grown && one.signals.iter().any(|s| s.hard && s.passed)))
    })?;
    let after = seconds(grown, hard.time);
    ensure!(context.patience > 1 || after < 3.0, "decided {after} s after the memory grew");
    eventually(context.patiently(10), "no pod was killed for the hard threshold", || {
        let available = fixture
            .metric("nodewarden_eviction_signal_available", ("signal", "allocatableMemory.available"))?;
        Ok((available > (HARD_MIB << 20) as f64).then_some(()))
    })?;
    for name in ["eater", "lingers"] {
        fixture.program.hold(name, 0, 0)?;
    }
    fixture.pods.finish()
}
