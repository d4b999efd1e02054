//! Memory of the whole node: what is available is read as a kubelet does, and the threshold is just below what there is.

use serde_json::json;

use super::NEEDS;
use super::site::{NO_DISKS, QUICK, Site, TRANSITION_S, critical, requests};
use crate::e2e::support::MIB;
use crate::fixture::NodeMemory;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_of_node_memory", of_the_node).timeout(150).needs(NEEDS)];

/// From what is available to the threshold, and from there on: what other programs take meanwhile shall not matter.
const ABOVE_MIB: u64 = 400;
const BEYOND_MIB: u64 = 350;
/// What two readings of the node may differ by.
const NOISE_MIB: u64 = 100;

fn of_the_node(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "", QUICK)?;
    let mut memory = NodeMemory::open(&context.layout)?;
    let mut available = || memory.available().map_err(Failure::file("memory.stat"));
    // Whatever else goes on here, nobody but the greedy one can be hit.
    let pods = [
        site.greedy("calm", json!({}), &[], critical()),
        site.greedy("steady", requests(64), &[], critical()),
    ];
    let others = site.up(pods)?;
    let eater = site.greedy("eater", requests(16), &[], json!({}));
    site.up([eater])?;

    let before = available()?;
    let simulated = site.simulated("memory.available", "1Mi")?;
    let after = available()?;
    let said = simulated.signals.iter().find(|one| one.signal == "memory.available");
    let said = said.ok_or_else(|| Failure::Unexpected("no reading of memory.available".into()))?;
    ensure!(
        said.available + NOISE_MIB * MIB >= before.min(after)
            && said.available <= before.max(after) + NOISE_MIB * MIB,
        "{} bytes are available by the agent's word, and {before} to {after} by the kernel's files",
        said.available
    );
    ensure_eq!(said.capacity, crate::fixture::total_memory()?, "the node's memory");

    // In a small guest a part of that.
    let (above, beyond) = (ABOVE_MIB.min(after / MIB / 3), BEYOND_MIB.min(after / MIB / 6));
    site.stage.stop_agent();
    let threshold = available()? / MIB - above;
    site.stage.set_kubelet(&format!(
        "evictionHard: {{memory.available: {threshold}Mi, {NO_DISKS}}}\n\
         evictionPressureTransitionPeriod: {TRANSITION_S}s\n"
    ));
    site.stage.start_agent()?;
    site.ask("eater", above + beyond)?;
    let seen = site.evicted("eater")?;
    site.program.hold("eater", 0, 0)?;
    let begin = "The node was low on resource: memory. Threshold quantity: ";
    let message = seen.text("/status/message");
    ensure!(message.starts_with(begin), "{message:?}");
    let decision = site.eviction_of("eater")?;
    let passed = decision.signals.iter().any(|one| one.signal == "memory.available" && one.passed);
    ensure!(passed, "signals: {:?}", decision.signals);
    site.unharmed(&others)?;
    // Back, if what others take lets it.
    site.stage.stop_agent();
    site.stage.set_kubelet(&format!(
        "evictionHard: {{memory.available: 1Mi, {NO_DISKS}}}\nevictionPressureTransitionPeriod: 1s\n"
    ));
    site.stage.start_agent()?;
    site.stage.up("eater")?;
    site.unharmed(&others)?;
    site.stage.finish()
}
