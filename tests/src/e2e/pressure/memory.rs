//! Eviction for memory.

use serde_json::json;

use super::NEEDS;
use super::fixture::{LEFT_MIB, PressureFixture, RunningPod, critical, guaranteed, requests};
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_of_largest_above_request", largest).timeout(120).needs(NEEDS),
    Test::new("eviction_by_priority_not_critical", by_priority).timeout(120).needs(NEEDS),
    Test::new("eviction_minimum_reclaim", minimum_reclaim).timeout(120).needs(NEEDS),
];

/// MiB that nearly use up the pool.
const GREED_MIB: u64 = 250;

/// At the hard threshold the pod furthest above its request is evicted, alone, with the kubelet's message and
/// a decision that explains it.
fn largest(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let none = json!({});
    let pods = [
        fixture.greedy("small", json!({}), &[], none.clone()),
        // Uses most memory at first, but within its request.
        fixture.greedy("modest", requests(80), &[], none.clone()),
        fixture.greedy("guaranteed", guaranteed(64), &[], none.clone()),
    ];
    let others = fixture.put_and_wait_up(pods)?;
    let eater = fixture.greedy("eater", requests(16), &[], none);
    fixture.put_and_wait_up([eater])?;
    fixture.hold("modest", 30)?;
    fixture.hold("small", 10)?;
    ensure!(
        fixture.decisions()?.iter().all(|decision| decision.kind != "eviction"),
        "a pod was evicted without need"
    );
    fixture.order_hold("eater", GREED_MIB)?;

    let seen = fixture.wait_evicted("eater")?;
    let message = seen.text("/status/message").to_owned();
    let begin =
        format!("The node was low on resource: memory. Threshold quantity: {LEFT_MIB}Mi, available: ");
    ensure!(message.starts_with(&begin), "{message:?} does not begin with {begin:?}");
    for words in ["Container c was using ", "request is 16Mi, has larger consumption of memory."] {
        ensure!(message.contains(words), "{words:?} is not in {message:?}");
    }
    fixture.program.hold("eater", 0, 0)?;
    let ended = seen.container("c")?.terminated().is_some();
    ensure!(ended, "its container is not shown as terminated: {}", seen.0["status"]);

    let decision = fixture.eviction_of("eater")?;
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
    fixture.check_unchanged(&others)?;
    ensure_eq!(fixture.chosen("eviction")?, ["eater"], "chosen pods");
    let counted = fixture.metric("kubelet_evictions", ("eviction_signal", "allocatableMemory.available"))?;
    ensure_eq!(counted, 1.0, "evictions by the agent's metric");
    fixture.pods.finish()
}

/// Among pods above their request the one with the lowest priority is evicted; a critical pod never is.
fn by_priority(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let pods = [
        fixture.greedy("critical", json!({}), &[], critical()),
        fixture.greedy("important", requests(8), &[], json!({ "priority": 100 })),
    ];
    let stay = fixture.put_and_wait_up(pods)?;
    let low_priority = fixture.greedy("lowly", requests(8), &[], json!({ "priority": -5 }));
    fixture.put_and_wait_up([low_priority])?;
    // Each uses more than its request: priority decides before usage, and the critical pod comes last, as
    // exempt.
    fixture.hold("lowly", 50)?;
    fixture.hold("important", 60)?;
    fixture.order_hold("critical", 155)?;
    fixture.wait_evicted("lowly")?;
    fixture.program.hold("lowly", 0, 0)?;
    let decision = fixture.eviction_of("lowly")?;
    let seen: Vec<_> =
        decision.candidates.iter().map(|one| (one.name.as_str(), one.spared.as_str())).collect();
    ensure_eq!(seen, [("lowly", ""), ("important", ""), ("critical", "critical")], "the order");
    // When the critical pod uses more and more, all others are evicted before it.
    fixture.order_hold("critical", 280)?;
    fixture.wait_evicted("important")?;
    fixture.program.hold("important", 0, 0)?;
    fixture.wait_held("critical", 280)?;
    std::thread::sleep(context.patiently(2));
    fixture.check_unchanged(&stay[..1])?;
    ensure!(fixture.chosen("eviction")?.iter().all(|name| name != "critical"), "a critical pod was chosen");
    fixture.hold("critical", 0)?;
    fixture.pods.wait_up("lowly")?;
    fixture.pods.wait_up("important")?;
    fixture.check_unchanged(&stay[..1])?;
    fixture.pods.finish()
}

/// With a minimum reclaim two pods are evicted, though the end of one would satisfy the threshold. The memory
/// is used while no agent runs, so that the first decision sees all of it.
fn minimum_reclaim(context: &Context) -> Result<(), Failure> {
    let more = "evictionMinimumReclaim: {memory.available: 100Mi}\n";
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, more)?;
    let pods = [("a", 95), ("b", 85), ("c", 75)];
    let manifests = pods.map(|(name, _)| fixture.greedy(name, requests(8), &[], json!({})));
    let all: Vec<RunningPod> = fixture.put_and_wait_up(manifests)?;
    fixture.pods.kill_agent()?;
    for (name, mib) in pods {
        fixture.hold(name, mib)?;
    }
    fixture.pods.start_agent()?;
    fixture.wait_evicted("a")?;
    fixture.program.hold("a", 0, 0)?;
    fixture.wait_evicted("b")?;
    fixture.program.hold("b", 0, 0)?;
    fixture.pods.wait_up("a")?;
    fixture.pods.wait_up("b")?;
    fixture.check_unchanged(&all[2..])?;
    ensure_eq!(fixture.chosen("eviction")?, ["a", "b"], "chosen pods");
    fixture.pods.finish()
}
