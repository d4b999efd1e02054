//! kill -9 of the agent while it changes the hierarchy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::compare::{children, limits_now};
use super::fixture::{Driver, HierarchyFixture};
use super::pods::{Dice, path, pod};
use crate::fixture::{Agent, Group, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("hierarchy_survives_kill9", kill9)
    .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::CpuCgroup, Capability::Loopback])
    .timeout(400)];

/// Number of kills on an ordinary and on an emulated machine.
const KILLS: [u64; 2] = [100, 8];
const PODS: u64 = 12;

/// After kill -9 at any moment the next agent completes partial and partly removed cgroups; the limits are
/// those of a start from nothing.
fn kill9(context: &Context) -> Result<(), Failure> {
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 60, "")?;
    let mut dice = Dice::new(9);
    let mut present: BTreeSet<u64> = BTreeSet::new();
    let mut workers: BTreeMap<u64, Worker> = BTreeMap::new();
    for i in 0..context.scaled(KILLS) {
        change(&managed, &mut present, &mut dice)?;
        let mut agent = Agent::spawn(context, managed.options())?;
        if i % 4 == 3 {
            // Killed once ready, while it makes new changes.
            agent.wait_ready()?;
            start_processes(context, &managed, &present, &mut workers)?;
            change(&managed, &mut present, &mut dice)?;
            std::thread::sleep(Duration::from_millis(dice.roll(40)));
        } else {
            std::thread::sleep(Duration::from_millis(dice.roll(400)) * context.patience);
        }
        agent.end(Signal::SIGKILL, context.patiently(20))?;
    }
    let agent = managed.start()?;
    let status = managed.wait_settled(&agent, present.len())?;
    ensure_eq!(status.foreign, Vec::<String>::new(), "foreign pods");
    let expected: BTreeSet<String> = present.iter().map(|i| managed.below_root(&path(*i))).collect();
    let levels = ["kubepods", "kubepods/burstable", "kubepods/besteffort"].map(|l| managed.level(l));
    let found: BTreeSet<String> =
        levels.iter().flat_map(|l| children(&context.layout, l)).filter(|c| !levels.contains(c)).collect();
    ensure_eq!(found, expected, "pod cgroups");
    check_hierarchies(context, &expected)?;
    // The limits must be those that an agent sets starting from an empty tree.
    let ours = || -> BTreeMap<_, _> {
        let all = limits_now(&context.layout, &managed.level("kubepods"));
        all.into_iter().filter(|((path, _), _)| levels.contains(path) || expected.contains(path)).collect()
    };
    let after = ours();
    for i in &present {
        managed.remove(&format!("p{i}"))?;
    }
    managed.wait_settled(&agent, 0)?;
    for i in &present {
        managed.write(&format!("p{i}"), &pod(*i))?;
    }
    managed.wait_settled(&agent, present.len())?;
    let fresh = ours();
    let other: Vec<_> = fresh.iter().filter(|(key, value)| after.get(key) != Some(value)).take(5).collect();
    ensure!(
        other.is_empty() && fresh.len() == after.len(),
        "created without a crash, limits differ ({} and {} in all): {other:?}",
        fresh.len(),
        after.len()
    );
    Ok(())
}

/// Checks that each pod's directory is in every hierarchy that its parent's is in.
fn check_hierarchies(context: &Context, pods: &BTreeSet<String>) -> Result<(), Failure> {
    for pod in pods {
        for hierarchy in context.layout.hierarchies() {
            let at = |path: &str| hierarchy.mount.join(path.trim_start_matches('/'));
            let parent = pod.rsplit_once('/').map_or("", |(parent, _)| parent);
            ensure!(at(parent).is_dir() == at(pod).is_dir(), "{pod} is not in {}", hierarchy.mount.display());
        }
    }
    Ok(())
}

/// Adds and removes a few manifests.
fn change(
    managed: &HierarchyFixture<'_>,
    present: &mut BTreeSet<u64>,
    dice: &mut Dice,
) -> Result<(), Failure> {
    for _ in 0..4 {
        let i = dice.roll(PODS);
        if present.remove(&i) {
            managed.remove(&format!("p{i}"))?;
        } else {
            managed.write(&format!("p{i}"), &pod(i))?;
            present.insert(i);
        }
    }
    Ok(())
}

/// Starts processes in some pods, as if containers ran in them.
fn start_processes(
    context: &Context,
    managed: &HierarchyFixture<'_>,
    present: &BTreeSet<u64>,
    workers: &mut BTreeMap<u64, Worker>,
) -> Result<(), Failure> {
    for i in present.iter().filter(|i| **i % 3 == 0) {
        let pod = Group::new(context.layout.clone(), managed.below_root(&path(*i)));
        // Its removal may be in progress.
        let Ok(container) = pod.child("container") else { continue };
        if let Ok(worker) = Worker::start(context, Some(&container), &["sleep"]) {
            workers.insert(*i, worker);
        }
    }
    Ok(())
}
