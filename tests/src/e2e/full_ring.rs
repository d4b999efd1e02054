//! More events than the ring buffer holds.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::eventually;
use crate::fixture::{Agent, AgentOptions, Client, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::page::page_bytes;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("full_ring_is_counted_and_recovered", full).needs(&[
    Capability::Root,
    Capability::Btf,
    Capability::Loopback,
])];

/// So many cgroups for each KiB of the ring fill it, even with a single hierarchy and one record for each
/// cgroup.
const CGROUPS_PER_KIB: usize = 30;
/// Slots beyond those of one round: if all rounds together lost more than these, cgroups would stay
/// untracked.
const SPARE: usize = 40;
/// On an ordinary and on an emulated machine.
const ROUNDS: [usize; 2] = [4, 2];
/// Time after which the slot of a removed cgroup is free again; the agent checks every second.
const SLOT_FREED: Duration = Duration::from_secs(4);

/// Events lost to a full ring are counted by type, and a walk of the tree finds the cgroups they were about.
fn full(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    // The smallest ring possible: it holds a dozen records with pages of 4 KiB.
    let ring = page_bytes();
    let cgroups = CGROUPS_PER_KIB * ring / 1024;
    let capacity = (cgroups + SPARE + context.layout.cgroups()) as u32;
    let options =
        AgentOptions { ring_bytes: Some(ring as u32), max_cgroups: Some(capacity), ..Default::default() };
    let agent = Agent::start(context, &options)?;
    let client = agent.client()?;
    let pid = Pid::from_raw(agent.pid().cast_signed());
    let below = format!("{}/", root.group().path());
    for round in 0..context.scaled(ROUNDS) {
        let lost_before = lost(&client, "cgroupCreated")?;
        let groups = while_stopped(pid, || {
            Ok((0..cgroups).map(|i| root.child(&format!("r{round}g{i}"))).collect::<Result<Vec<_>, _>>()?)
        })?;
        eventually(context.patiently(5), "creations that found the ring full are not counted", || {
            Ok((lost(&client, "cgroupCreated")? > lost_before).then_some(()))
        })?;
        eventually(context.patiently(10), "not every cgroup was found by the walk", || {
            Ok((living(&client, &below)? == cgroups).then_some(()))
        })?;

        let lost_before = lost(&client, "cgroupRemoved")?;
        while_stopped(pid, || {
            for group in &groups {
                group.remove()?;
            }
            Ok(())
        })?;
        eventually(context.patiently(5), "removals that found the ring full are not counted", || {
            Ok((lost(&client, "cgroupRemoved")? > lost_before).then_some(()))
        })?;
        eventually(context.patiently(10), "removed cgroups are still shown as living", || {
            Ok((living(&client, &below)? == 0).then_some(()))
        })?;
        // Slots become free some time after the removal.
        std::thread::sleep(SLOT_FREED);
    }
    let status = client.status()?;
    ensure_eq!(status.cgroups_untracked, 0, "cgroups untracked because slots were lost");
    let notes = client.watch(super::support::since(std::time::UNIX_EPOCH, &["lost"]))?;
    let notes = notes.collect(Duration::from_millis(500), context.patiently(5), |_| true)?;
    ensure!(!notes.is_empty(), "the journal does not report the losses");
    Ok(())
}

/// Calls `what` while the agent is stopped, so that it reads nothing from the ring.
fn while_stopped<T>(pid: Pid, what: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let signal =
        |signal| kill(pid, signal).map_err(|e| Failure::Unexpected(format!("{signal} to the agent: {e}")));
    signal(Signal::SIGSTOP)?;
    let result = what();
    signal(Signal::SIGCONT)?;
    result
}

/// Number of events of this type that the agent reports as lost.
fn lost(client: &Client, kind: &str) -> Result<u64, Failure> {
    Ok(client.status()?.events.iter().filter(|e| e.r#type == kind).map(|e| e.lost).sum())
}

/// Number of cgroups below a path that the agent lists as not removed.
fn living(client: &Client, below: &str) -> Result<usize, Failure> {
    let cgroups = client.cgroups(below.trim_end_matches('/'))?;
    Ok(cgroups.iter().filter(|c| c.removed.is_none() && c.path.starts_with(below)).count())
}
