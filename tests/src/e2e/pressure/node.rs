//! Eviction for memory of the whole node.

use serde_json::json;

use super::NEEDS;
use super::fixture::{NO_DISKS, PressureFixture, QUICK_RESTART, TRANSITION_S, critical, requests};
use crate::e2e::support::MIB;
use crate::fixture::NodeMemory;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_of_node_memory", of_the_node).timeout(150).needs(NEEDS)];

/// MiB from the available memory down to the threshold: more than other programs use meanwhile.
const ABOVE_MIB: u64 = 400;
/// MiB by which the pod goes beyond the threshold.
const BEYOND_MIB: u64 = 350;
/// MiB by which two readings of the node may differ.
const NOISE_MIB: u64 = 100;

/// The agent reads the node's available memory as the kubelet does, and evicts the pod that uses it up.
fn of_the_node(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::new(context, "", QUICK_RESTART)?;
    let mut memory = NodeMemory::open(&context.layout)?;
    let mut available = || memory.available().map_err(Failure::file("memory.stat"));
    // The others are critical: whatever else uses memory here, only `eater` can be evicted.
    let pods = [
        fixture.greedy("calm", json!({}), &[], critical()),
        fixture.greedy("steady", requests(64), &[], critical()),
    ];
    let others = fixture.put_and_wait_up(pods)?;
    let eater = fixture.greedy("eater", requests(16), &[], json!({}));
    fixture.put_and_wait_up([eater])?;

    let before = available()?;
    let simulated = fixture.simulate("memory.available", "1Mi")?;
    let after = available()?;
    let said = simulated.signals.iter().find(|one| one.signal == "memory.available");
    let said = said.ok_or_else(|| Failure::Unexpected("no reading of memory.available".into()))?;
    ensure!(
        said.available + NOISE_MIB * MIB >= before.min(after)
            && said.available <= before.max(after) + NOISE_MIB * MIB,
        "{} bytes are available by the agent, and {before} to {after} by the kernel's files",
        said.available
    );
    ensure_eq!(said.capacity, crate::fixture::total_memory()?, "the node's memory");

    // Less in a small guest.
    let (above, beyond) = (ABOVE_MIB.min(after / MIB / 3), BEYOND_MIB.min(after / MIB / 6));
    fixture.pods.stop_agent();
    let threshold = available()? / MIB - above;
    fixture.pods.set_kubelet(&format!(
        "evictionHard: {{memory.available: {threshold}Mi, {NO_DISKS}}}\n\
         evictionPressureTransitionPeriod: {TRANSITION_S}s\n"
    ));
    fixture.pods.start_agent()?;
    fixture.order_hold("eater", above + beyond)?;
    let seen = fixture.wait_evicted("eater")?;
    fixture.program.hold("eater", 0, 0)?;
    let begin = "The node was low on resource: memory. Threshold quantity: ";
    let message = seen.text("/status/message");
    ensure!(message.starts_with(begin), "{message:?}");
    let decision = fixture.eviction_of("eater")?;
    let passed = decision.signals.iter().any(|one| one.signal == "memory.available" && one.passed);
    ensure!(passed, "signals: {:?}", decision.signals);
    fixture.check_unchanged(&others)?;
    // It starts again under a lower threshold, so that the memory of other programs does not matter.
    fixture.pods.stop_agent();
    fixture.pods.set_kubelet(&format!(
        "evictionHard: {{memory.available: 1Mi, {NO_DISKS}}}\nevictionPressureTransitionPeriod: 1s\n"
    ));
    fixture.pods.start_agent()?;
    fixture.pods.wait_up("eater")?;
    fixture.check_unchanged(&others)?;
    fixture.pods.finish()
}
