//! While the node is under pressure: the condition stays for its period, who may begin meanwhile, and who may not.

use serde_json::json;

use super::NEEDS;
use super::site::{self, LEFT_MIB, Site, critical, now, pool, requests, seconds};
use crate::e2e::pods::manifest::{STAY, merged, one};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_transition_period", transition).timeout(150).needs(NEEDS)];

/// How long the condition stays when its cause is over.
const TRANSITION_S: u64 = 8;
const GREED_MIB: u64 = 280;

fn transition(context: &Context) -> Result<(), Failure> {
    let usual = format!("evictionPressureTransitionPeriod: {}s", site::TRANSITION_S);
    let own = format!("evictionPressureTransitionPeriod: {TRANSITION_S}s");
    let kubelet = pool(LEFT_MIB, "")?.replace(&usual, &own);
    ensure!(kubelet.contains(&own), "the period is not set: {kubelet}");
    let mut site = Site::new(context, &kubelet, "eviction: {backOffSeconds: 1}")?;
    let eater = site.greedy("eater", requests(16), &[], json!({}));
    site.up([eater])?;
    ensure!(!site.is_pressed("MemoryPressure")?, "there is pressure before there is any");
    site.ask("eater", GREED_MIB)?;
    site.evicted("eater")?;
    let went = now();
    site.program.hold("eater", 0, 0)?;
    ensure!(site.is_pressed("MemoryPressure")?, "the node is not said to be under pressure");
    // Nobody who asks for nothing, unless critical; the others as usual.
    let pod = |name: &str, resources, spec| {
        let mut pod = one(name, STAY, json!({ "resources": resources }));
        pod["spec"] = merged(pod["spec"].clone(), spec);
        pod
    };
    let waiting = [pod("best-effort", json!({}), json!({}))];
    site.stage.put(waiting)?;
    site.up([
        pod("burstable", json!({ "requests": { "memory": "16Mi" } }), json!({})),
        pod("critical", json!({}), critical()),
    ])?;
    let seen = site.stage.until("best-effort", "waiting", 10, |pod| {
        pod.phase() == "Pending" && !pod.text("/status/reason").is_empty()
    })?;
    ensure!(seen.text("/status/message").contains("MemoryPressure"), "it waits for {}", seen.0["status"]);
    // The agent's end is not the pressure's: half of the period passes with another one.
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    let still = seconds(went, now());
    if still < TRANSITION_S as f64 - 1.0 {
        ensure!(site.is_pressed("MemoryPressure")?, "the condition is gone {still:.1} s after the eviction");
        ensure!(site.stage.pod("best-effort")?.is_some_and(|pod| !pod.is_up()), "it runs under pressure");
    }
    site.until_pressed("MemoryPressure", false, TRANSITION_S + 15)?;
    let over = seconds(went, now());
    ensure!(over >= TRANSITION_S as f64 - 0.5, "the condition was over {over:.1} s after the eviction");
    ensure!(
        context.patience > 1 || over < TRANSITION_S as f64 + 8.0,
        "the condition was over only {over:.1} s after the eviction"
    );
    site.stage.up("best-effort")?;
    site.stage.up("eater")?;
    ensure_eq!(site.chosen("eviction")?, ["eater"], "who was chosen");
    site.stage.finish()
}
