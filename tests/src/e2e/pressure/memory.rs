//! Memory runs out: the right pod goes, alone and at once, and it is said why.

use serde_json::json;

use super::NEEDS;
use super::site::{Alive, LEFT_MIB, Site, critical, guaranteed, requests};
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_of_the_greediest", greediest).timeout(120).needs(NEEDS),
    Test::new("eviction_by_priority_and_never_critical", by_priority).timeout(120).needs(NEEDS),
    Test::new("eviction_minimum_reclaim", minimum_reclaim).timeout(120).needs(NEEDS),
];

/// Until the pool is nearly used up.
const GREED_MIB: u64 = 250;

fn greediest(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let none = json!({});
    let pods = [
        site.greedy("small", json!({}), &[], none.clone()),
        // Uses most of all before the greedy one takes more, and asked for it.
        site.greedy("modest", requests(80), &[], none.clone()),
        site.greedy("guaranteed", guaranteed(64), &[], none.clone()),
    ];
    let others = site.up(pods)?;
    let eater = site.greedy("eater", requests(16), &[], none);
    site.up([eater])?;
    site.hold("modest", 30)?;
    site.hold("small", 10)?;
    ensure!(site.decisions()?.iter().all(|decision| decision.kind != "eviction"), "before there was need");
    site.ask("eater", GREED_MIB)?;

    let seen = site.evicted("eater")?;
    let message = seen.text("/status/message").to_owned();
    let begin =
        format!("The node was low on resource: memory. Threshold quantity: {LEFT_MIB}Mi, available: ");
    ensure!(message.starts_with(&begin), "{message:?} does not begin with {begin:?}");
    for words in ["Container c was using ", "request is 16Mi, has larger consumption of memory."] {
        ensure!(message.contains(words), "{words:?} is not in {message:?}");
    }
    site.program.hold("eater", 0, 0)?;
    let ended = seen.container("c")?.ended().is_some();
    ensure!(ended, "its container is not shown as ended: {}", seen.0["status"]);

    let decision = site.eviction_of("eater")?;
    let order: Vec<_> = decision.candidates.iter().map(|one| one.name.as_str()).collect();
    ensure!(order.starts_with(&["eater", "small"]) && order.len() == 4, "the order was {order:?}");
    let first = &decision.candidates[0];
    ensure!(
        first.chosen && first.qos == "Burstable" && first.request == 16 << 20 && first.usage > 100 << 20,
        "{first:?}"
    );
    let passed: Vec<_> = decision.signals.iter().filter(|one| one.passed && one.hard).collect();
    ensure!(
        passed.iter().any(|one| one.signal == "allocatableMemory.available"
            && one.threshold == LEFT_MIB << 20
            && one.available < one.threshold),
        "signals: {:?}",
        decision.signals
    );
    let steps: Vec<_> = decision.steps.iter().map(|step| step.what.as_str()).collect();
    ensure!(steps.contains(&"kill") && steps.contains(&"processes gone"), "steps: {steps:?}");
    println!("{REPORTED}woken by {}; {:?}", decision.woken_by, decision.steps);
    site.unharmed(&others)?;
    ensure_eq!(site.chosen("eviction")?, ["eater"], "who was chosen");
    let counted = site.metric("kubelet_evictions", ("eviction_signal", "allocatableMemory.available"))?;
    ensure_eq!(counted, 1.0, "evictions by the agent's word");
    site.stage.finish()
}

fn by_priority(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let pods = [
        site.greedy("critical", json!({}), &[], critical()),
        site.greedy("important", requests(8), &[], json!({ "priority": 100 })),
    ];
    let stay = site.up(pods)?;
    let lowly = site.greedy("lowly", requests(8), &[], json!({ "priority": -5 }));
    site.up([lowly])?;
    // Each above its request: priority decides before use does, and the critical one is no candidate at all.
    site.hold("lowly", 50)?;
    site.hold("important", 60)?;
    site.ask("critical", 155)?;
    site.evicted("lowly")?;
    site.program.hold("lowly", 0, 0)?;
    let decision = site.eviction_of("lowly")?;
    let seen: Vec<_> =
        decision.candidates.iter().map(|one| (one.name.as_str(), one.spared.as_str())).collect();
    ensure_eq!(seen, [("lowly", ""), ("important", ""), ("critical", "critical")], "the order");
    // The critical one takes more and more: whoever else there is goes, and it stays.
    site.ask("critical", 280)?;
    site.evicted("important")?;
    site.program.hold("important", 0, 0)?;
    site.holds("critical", 280)?;
    std::thread::sleep(context.patiently(2));
    site.unharmed(&stay[..1])?;
    ensure!(site.chosen("eviction")?.iter().all(|name| name != "critical"), "a critical pod was chosen");
    site.hold("critical", 0)?;
    site.stage.up("lowly")?;
    site.stage.up("important")?;
    site.unharmed(&stay[..1])?;
    site.stage.finish()
}

/// Filled while nobody looks, so that all of it is there at the first decision: one pod's end would be enough for the
/// threshold, and two are for what is to be free then.
fn minimum_reclaim(context: &Context) -> Result<(), Failure> {
    let more = "evictionMinimumReclaim: {memory.available: 100Mi}\n";
    let mut site = Site::with_pool(context, LEFT_MIB, more)?;
    let pods = [("a", 95), ("b", 85), ("c", 75)];
    let manifests = pods.map(|(name, _)| site.greedy(name, requests(8), &[], json!({})));
    let all: Vec<Alive> = site.up(manifests)?;
    site.stage.kill_agent()?;
    for (name, mib) in pods {
        site.hold(name, mib)?;
    }
    site.stage.start_agent()?;
    site.evicted("a")?;
    site.program.hold("a", 0, 0)?;
    site.evicted("b")?;
    site.program.hold("b", 0, 0)?;
    site.stage.up("a")?;
    site.stage.up("b")?;
    site.unharmed(&all[2..])?;
    ensure_eq!(site.chosen("eviction")?, ["a", "b"], "who was chosen");
    site.stage.finish()
}
