//! Eviction in mode observe.

use super::fixture::{chosen, decisions, metric};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Agent, AgentOptions, Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_observed", observed).timeout(90).needs(&[
    Capability::Root,
    Capability::MemoryCgroup,
    Capability::Loopback,
])];

const EATER: &str = "0a0a0a0a-1111-4222-8333-000000000001";
const MODEST: &str = "0a0a0a0a-1111-4222-8333-000000000002";

/// Creates a pod's cgroup and a container's in it, with the names of the cgroupfs driver. Returns the
/// container's.
fn pod(kubepods: &Group, level: &str, uid: &str, container: char) -> Result<Group, Failure> {
    let above = if level.is_empty() { kubepods.clone() } else { kubepods.child(level)? };
    let pod = above.child(&format!("pod{uid}"))?;
    Ok(pod.child(&container.to_string().repeat(64))?)
}

/// In mode observe the agent shows once which pod it would evict, and kills no process.
fn observed(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let kubepods = root.child("kubepods")?;
    let eater = pod(&kubepods, "besteffort", EATER, 'a')?;
    let modest = pod(&kubepods, "burstable", MODEST, 'b')?;
    let eat = |group: &Group, mib: u64| {
        Worker::start(context, Some(group), &["eat-memory", &(mib * MIB).to_string()])
    };
    let mut workers = [eat(&eater, 60)?, eat(&modest, 10)?];
    // A threshold that is met from the beginning.
    let kubelet = format!(
        "cgroupRoot: {}\nevictionHard: {{memory.available: 99%, nodefs.available: 0%, nodefs.inodesFree: 0%, \
         imagefs.available: 0%, imagefs.inodesFree: 0%}}\n",
        root.group().path()
    );
    let agent = Agent::start(context, &AgentOptions { kubelet, ..AgentOptions::default() })?;
    let decision = eventually(context.patiently(20), "there is no decision on an eviction", || {
        Ok(decisions(&agent)?.into_iter().find(|one| one.kind == "eviction"))
    })?;
    ensure!(decision.would, "mode observe has evicted: {decision:?}");
    let uids: Vec<_> = decision.candidates.iter().map(|one| one.uid.as_str()).collect();
    ensure!(uids.contains(&EATER) && uids.contains(&MODEST), "candidates: {:?}", decision.candidates);
    let uids_chosen: Vec<_> =
        decision.candidates.iter().filter(|one| one.chosen).map(|one| one.uid.as_str()).collect();
    ensure_eq!(uids_chosen, [EATER], "pods that would be chosen");
    ensure_eq!(chosen(&decision).count(), 1, "number of chosen pods");
    let pressed = metric(&agent, "nodewarden_node_condition", ("condition", "MemoryPressure"))?;
    ensure_eq!(pressed, 1.0, "MemoryPressure");
    std::thread::sleep(context.patiently(2));
    ensure!(decisions(&agent)?.iter().all(|one| one.would), "a decision was carried out");
    // The decision is not repeated again and again while nothing changes.
    let count = decisions(&agent)?.len();
    ensure!(count < 10, "{count} decisions in a few seconds");
    for worker in &mut workers {
        worker.go()?;
    }
    for worker in workers {
        let status = worker.finish(context.patiently(10))?;
        ensure!(status.success(), "a pod's process ended with {status}");
    }
    Ok(())
}
