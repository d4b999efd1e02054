//! What becomes of an evicted pod: shown as failed, back by itself when the pressure is over, and explained.

use std::time::SystemTime;

use serde_json::json;

use super::NEEDS;
use super::site::{LEFT_MIB, NO_DISKS, Site, is_evicted, pool, requests};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_and_return", returns).timeout(120).needs(NEEDS),
    Test::new("eviction_without_return", stays_away).timeout(120).needs(NEEDS),
    Test::new("eviction_explained", explained).timeout(120).needs(NEEDS),
];

const GREED_MIB: u64 = 280;

fn returns(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, &pool(LEFT_MIB, "")?, "eviction: {backOffSeconds: 3}")?;
    let eater = site.greedy("eater", requests(16), &[], json!({}));
    let before = site.up([eater])?.remove(0);
    let mut away = Vec::new();
    for time in 1..=2 {
        site.ask("eater", GREED_MIB)?;
        site.evicted("eater")?;
        let went = SystemTime::now();
        site.program.hold("eater", 0, 0)?;
        let back = site.stage.until("eater", "back", 60, |pod| pod.is_up())?;
        away.push(went.elapsed().unwrap_or_default());
        let c = back.container("c")?;
        ensure!(c.id() != before.container, "the same container runs again");
        ensure_eq!(c.restarts(), 0, "restarts of a new run");
        ensure_eq!(back.text("/status/reason"), "", "reason of a pod that is back");
        ensure_eq!(site.chosen("eviction")?.len(), time, "evictions");
    }
    // A tenth for what passes between the eviction and the look at it.
    let least = [3.0, 6.0].map(|seconds| seconds * 0.9);
    for (away, least) in away.iter().zip(least) {
        ensure!(away.as_secs_f64() >= least, "away for {away:?}, and not {least} s at least");
    }
    let notes = site.stage.notes("eater", "Evicted", site.begun)?;
    ensure_eq!(notes.len(), 2, "events of its evictions: {notes:?}");
    site.stage.finish()
}

fn stays_away(context: &Context) -> Result<(), Failure> {
    let section = "eviction: {restartEvicted: false, backOffSeconds: 1}";
    let mut site = Site::new(context, &pool(LEFT_MIB, "")?, section)?;
    let pods = ["eater", "other"].map(|name| site.greedy(name, requests(16), &[], json!({})));
    let other = site.up(pods)?.split_off(1);
    site.ask("eater", GREED_MIB)?;
    let seen = site.evicted("eater")?;
    site.program.hold("eater", 0, 0)?;
    site.until_pressed("MemoryPressure", false, 30)?;
    std::thread::sleep(context.patiently(2));
    let later = site.evicted("eater")?;
    let words = |pod: &crate::e2e::pods::seen::Seen| pod.text("/status/message").to_owned();
    ensure_eq!(words(&later), words(&seen), "the message, later");
    // Its logs stay; its cgroup and its directories do not.
    ensure!(site.stage.log_dir(&later).is_dir(), "its logs are gone");
    ensure!(site.stage.cgroup(&later).is_err(), "its cgroup is still there");
    site.unharmed(&other)?;
    // Another manifest of its name is another pod.
    let mut manifest = site.greedy("eater", requests(16), &[], json!({}));
    manifest["metadata"]["labels"] = json!({ "changed": "yes" });
    site.up([manifest])?;
    site.stage.finish()
}

fn explained(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let pods = ["eater", "other"].map(|name| site.greedy(name, requests(16), &[], json!({})));
    site.up(pods)?;
    let status = site.printed(&["status"])?;
    ensure!(status.contains("MemoryPressure"), "no conditions in the status:\n{status}");
    site.ask("eater", GREED_MIB)?;
    site.evicted("eater")?;
    ensure!(site.is_pressed("MemoryPressure")?, "the node is not said to be under pressure");
    site.program.hold("eater", 0, 0)?;
    let decision = site.eviction_of("eater")?;
    for command in [&["explain", "eater"][..], &["explain", "default/eater"], &["explain", "node"]] {
        let text = site.printed(command)?;
        for word in ["eviction", "allocatableMemory.available", "eater", "other", "kill", &decision.woken_by]
        {
            ensure!(text.contains(word), "{word:?} is not in what {command:?} prints:\n{text}");
        }
    }
    let unknown = site.stage.command(&["explain", "nobody"])?;
    let said = String::from_utf8_lossy(&unknown.stdout);
    ensure!(
        !unknown.status.success() || said.contains("Nothing was decided about nobody"),
        "a pod that there is not is explained: {said}"
    );
    // What was decided is still known to another agent.
    site.until_pressed("MemoryPressure", false, 30)?;
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    let later = site.eviction_of("eater")?;
    ensure_eq!((later.number, later.time), (decision.number, decision.time), "the decision, later");
    let back = site.stage.up("eater")?;
    ensure!(!is_evicted(&back), "it is back");
    // The defaults of other signals stay where one is set.
    site.stage.stop_agent();
    site.stage.set_kubelet(&format!("evictionHard: {{{NO_DISKS}}}\n"));
    site.stage.start_agent()?;
    eventually(context.patiently(10), "the default of memory.available is gone", || {
        let threshold =
            site.metric("nodewarden_eviction_signal_threshold", ("signal", "memory.available"))?;
        Ok((threshold == (100 << 20) as f64).then_some(()))
    })?;
    site.stage.finish()
}
