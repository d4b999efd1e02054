//! kill -9 at any moment: the next start finds and finishes half-made and half-removed hierarchies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::compare::{children, limits_now};
use super::managed::{Driver, Managed};
use super::pods::{Dice, path, pod};
use crate::fixture::{Agent, Group, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("hierarchy_survives_kill9", kill9)
    .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::CpuCgroup, Capability::Loopback])
    .timeout(400)];

/// On an ordinary and on an emulated machine.
const KILLS: [u64; 2] = [100, 8];
const PODS: u64 = 12;

fn kill9(context: &Context) -> Result<(), Failure> {
    let managed = Managed::new(context, Driver::Cgroupfs, 60, "")?;
    let mut dice = Dice::new(9);
    let mut there: BTreeSet<u64> = BTreeSet::new();
    let mut workers: BTreeMap<u64, Worker> = BTreeMap::new();
    for i in 0..context.scaled(KILLS) {
        change(&managed, &mut there, &mut dice)?;
        let mut agent = Agent::spawn(context, managed.options())?;
        if i % 4 == 3 {
            // Ready, and then in the middle of new changes.
            agent.wait_ready()?;
            inhabit(context, &managed, &there, &mut workers)?;
            change(&managed, &mut there, &mut dice)?;
            std::thread::sleep(Duration::from_millis(dice.roll(40)));
        } else {
            std::thread::sleep(Duration::from_millis(dice.roll(400)) * context.patience);
        }
        agent.end(Signal::SIGKILL, context.patiently(20))?;
    }
    let agent = managed.start()?;
    let status = managed.settled(&agent, there.len())?;
    ensure_eq!(status.foreign, Vec::<String>::new(), "strangers");
    let expected: BTreeSet<String> = there.iter().map(|i| managed.below_root(&path(*i))).collect();
    let levels = ["kubepods", "kubepods/burstable", "kubepods/besteffort"].map(|l| managed.level(l));
    let found: BTreeSet<String> =
        levels.iter().flat_map(|l| children(&context.layout, l)).filter(|c| !levels.contains(c)).collect();
    ensure_eq!(found, expected, "pod cgroups");
    everywhere(context, &expected)?;
    // The same as if nothing had ever happened: what an agent makes of an empty tree.
    let ours = || -> BTreeMap<_, _> {
        let all = limits_now(&context.layout, &managed.level("kubepods"));
        all.into_iter().filter(|((path, _), _)| levels.contains(path) || expected.contains(path)).collect()
    };
    let after = ours();
    for i in &there {
        managed.remove(&format!("p{i}"))?;
    }
    managed.settled(&agent, 0)?;
    for i in &there {
        managed.write(&format!("p{i}"), &pod(*i))?;
    }
    managed.settled(&agent, there.len())?;
    let fresh = ours();
    let other: Vec<_> = fresh.iter().filter(|(key, value)| after.get(key) != Some(value)).take(5).collect();
    ensure!(
        other.is_empty() && fresh.len() == after.len(),
        "made without a crash, limits are others ({} and {} in all): {other:?}",
        fresh.len(),
        after.len()
    );
    Ok(())
}

/// Each pod's directory is in every hierarchy that its level is in.
fn everywhere(context: &Context, pods: &BTreeSet<String>) -> Result<(), Failure> {
    for pod in pods {
        for hierarchy in context.layout.hierarchies() {
            let at = |path: &str| hierarchy.mount.join(path.trim_start_matches('/'));
            let level = pod.rsplit_once('/').map_or("", |(level, _)| level);
            ensure!(at(level).is_dir() == at(pod).is_dir(), "{pod} is not in {}", hierarchy.mount.display());
        }
    }
    Ok(())
}

/// Adds and removes a few manifests.
fn change(managed: &Managed<'_>, there: &mut BTreeSet<u64>, dice: &mut Dice) -> Result<(), Failure> {
    for _ in 0..4 {
        let i = dice.roll(PODS);
        if there.remove(&i) {
            managed.remove(&format!("p{i}"))?;
        } else {
            managed.write(&format!("p{i}"), &pod(i))?;
            there.insert(i);
        }
    }
    Ok(())
}

/// Some pods have processes, as if containers ran in them.
fn inhabit(
    context: &Context,
    managed: &Managed<'_>,
    there: &BTreeSet<u64>,
    workers: &mut BTreeMap<u64, Worker>,
) -> Result<(), Failure> {
    for i in there.iter().filter(|i| **i % 3 == 0) {
        let pod = Group::new(context.layout.clone(), managed.below_root(&path(*i)));
        // Its removal may be under way.
        let Ok(container) = pod.child("container") else { continue };
        if let Ok(worker) = Worker::start(context, Some(&container), &["sleep"]) {
            workers.insert(*i, worker);
        }
    }
    Ok(())
}
