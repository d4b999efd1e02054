//! More events than the ring holds: each loss is counted by type, and the tree is made good by a walk.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::eventually;
use crate::fixture::{Agent, AgentOptions, Client, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("full_ring_is_counted_and_made_good", full).needs(&[
    Capability::Root,
    Capability::Btf,
    Capability::Loopback,
])];

/// The smallest ring there is: a dozen records.
const RING: u32 = 4096;
/// More records than that, even with a single hierarchy and one record for each.
const CGROUPS: usize = 120;
/// Room for this much more than one round: more slots lost in all rounds would show.
const SPARE: usize = 40;
/// Few where every one takes long.
const ROUNDS: [usize; 2] = [4, 2];
/// A slot is given back so long after its cgroup went, and ticks are a second apart.
const GIVEN_BACK: Duration = Duration::from_secs(4);

fn full(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let capacity = (CGROUPS + SPARE + context.layout.cgroups()) as u32;
    let options = AgentOptions { ring_bytes: Some(RING), max_cgroups: Some(capacity), ..Default::default() };
    let agent = Agent::start(context, &options)?;
    let client = agent.client()?;
    let pid = Pid::from_raw(agent.pid().cast_signed());
    let below = format!("{}/", root.group().path());
    for round in 0..context.scaled(ROUNDS) {
        let lost_before = lost(&client, "cgroupCreated")?;
        let groups = stopped(pid, || {
            Ok((0..CGROUPS).map(|i| root.child(&format!("r{round}g{i}"))).collect::<Result<Vec<_>, _>>()?)
        })?;
        eventually(context.patiently(5), "creations that found the ring full are not counted", || {
            Ok((lost(&client, "cgroupCreated")? > lost_before).then_some(()))
        })?;
        eventually(context.patiently(10), "not every cgroup was found by the walk", || {
            Ok((living(&client, &below)? == CGROUPS).then_some(()))
        })?;

        let lost_before = lost(&client, "cgroupRemoved")?;
        stopped(pid, || {
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
        // Slots are given back some time after the removal.
        std::thread::sleep(GIVEN_BACK);
    }
    let status = client.status()?;
    ensure_eq!(status.cgroups_untracked, 0, "a slot was lost: cgroups without counters");
    let told = client.watch(super::support::since(std::time::UNIX_EPOCH, &["lost"]))?;
    let told = told.collect(Duration::from_millis(500), context.patiently(5), |_| true)?;
    ensure!(!told.is_empty(), "the journal says nothing of the losses");
    Ok(())
}

/// Does something while the agent is stopped, so that nothing is taken from the ring.
fn stopped<T>(pid: Pid, what: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let signal =
        |signal| kill(pid, signal).map_err(|e| Failure::Unexpected(format!("{signal} to the agent: {e}")));
    signal(Signal::SIGSTOP)?;
    let result = what();
    signal(Signal::SIGCONT)?;
    result
}

fn lost(client: &Client, kind: &str) -> Result<u64, Failure> {
    Ok(client.status()?.events.iter().filter(|e| e.r#type == kind).map(|e| e.lost).sum())
}

fn living(client: &Client, below: &str) -> Result<usize, Failure> {
    let cgroups = client.cgroups(below.trim_end_matches('/'))?;
    Ok(cgroups.iter().filter(|c| c.removed.is_none() && c.path.starts_with(below)).count())
}
