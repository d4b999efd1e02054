//! Soft thresholds: nobody goes before the grace is over, who goes may end as he likes, and a hard threshold does not wait
//! for that.

use serde_json::json;

use super::NEEDS;
use super::site::{Site, now, pool, requests, seconds};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_soft_after_its_grace", after_grace).timeout(150).needs(NEEDS),
    Test::new("eviction_hard_beside_a_long_soft_one", hard_beside_soft).timeout(120).needs(NEEDS),
];

/// Left at the hard threshold and at the soft one.
const HARD_MIB: u64 = 80;
const SOFT_MIB: u64 = 250;
const GRACE_S: u64 = 4;

/// The soft threshold beside the hard one; `pod_grace` is what evicted pods may take at most.
pub fn soft(grace: u64, pod_grace: u64) -> String {
    format!(
        "evictionSoft: {{allocatableMemory.available: {SOFT_MIB}Mi}}\n\
         evictionSoftGracePeriod: {{allocatableMemory.available: {grace}s}}\n\
         evictionMaxPodGracePeriod: {pod_grace}\n"
    )
}

fn after_grace(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, HARD_MIB, &soft(GRACE_S, 5))?;
    let eater = site.greedy("eater", requests(16), &[], json!({ "terminationGracePeriodSeconds": 30 }));
    let other = site.greedy("other", requests(64), &[], json!({}));
    let other = site.up([other])?;
    let before = site.up([eater])?;
    // Over before its time: nobody goes, and the time begins anew.
    site.hold("eater", 190)?;
    site.until_pressed("MemoryPressure", true, 10)?;
    site.hold("eater", 0)?;
    std::thread::sleep(std::time::Duration::from_secs(GRACE_S + 1));
    site.unharmed(&before)?;
    let passed = now();
    site.hold("eater", 190)?;
    site.evicted("eater")?;
    site.program.hold("eater", 0, 0)?;
    let decision = site.eviction_of("eater")?;
    let after = seconds(passed, decision.time);
    ensure!(after >= GRACE_S as f64, "evicted {after} s after its memory grew");
    let soft = decision.signals.iter().find(|one| !one.hard && one.passed);
    ensure_eq!(soft.and_then(|one| one.grace_ms), Some(GRACE_S * 1000), "the signal's grace");
    ensure!(soft.and_then(|one| one.passed_for_ms) >= Some(GRACE_S * 1000), "passed for {soft:?}");
    let noted = site.program.noted("eater");
    let ended = noted.iter().any(|one| one.listener == "main" && one.answer == "end");
    ensure!(ended, "it was not let end as it likes");
    println!("{REPORTED}{after:.2} s after its memory grew, of which {GRACE_S} are grace");
    site.unharmed(&other)?;
    ensure_eq!(site.chosen("eviction")?, ["eater"], "who was chosen");
    site.stage.finish()
}

fn hard_beside_soft(context: &Context) -> Result<(), Failure> {
    let site = Site::new(
        context,
        &pool(HARD_MIB, &soft(1, 60))?,
        // So that who is evicted does not come back meanwhile.
        "eviction: {backOffSeconds: 60}",
    );
    let mut site = site?;
    let long = json!({ "terminationGracePeriodSeconds": 60 });
    let lingers = site.greedy("lingers", requests(16), &["--stay", "60"], long);
    let eater = site.greedy("eater", requests(16), &[], json!({}));
    site.up([lingers, eater])?;
    site.hold("lingers", 170)?;
    eventually(context.patiently(20), "the pod above the soft threshold is not asked to end", || {
        let noted = site.program.noted("lingers");
        Ok(noted.iter().any(|one| one.listener == "main" && one.answer == "term").then_some(()))
    })?;
    let grown = now();
    site.ask("eater", 170)?;
    // One of them goes at once: the one that lingers is cut short, or the other is evicted.
    let hard = eventually(context.patiently(10), "the hard threshold waits for the soft one", || {
        let acted = site.acted("eviction")?;
        Ok(acted.into_iter().find(|one| one.time >= grown && one.signals.iter().any(|s| s.hard && s.passed)))
    })?;
    let after = seconds(grown, hard.time);
    ensure!(context.patience > 1 || after < 3.0, "decided {after} s after the memory grew");
    eventually(context.patiently(10), "nobody has gone for the hard threshold", || {
        let available =
            site.metric("nodewarden_eviction_signal_available", ("signal", "allocatableMemory.available"))?;
        Ok((available > (HARD_MIB << 20) as f64).then_some(()))
    })?;
    for name in ["eater", "lingers"] {
        site.program.hold(name, 0, 0)?;
    }
    site.stage.finish()
}
