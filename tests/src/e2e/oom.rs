//! Single OOM kills: which process, in which cgroup, by whose limit.

use std::time::{Duration, SystemTime};

use super::support::{MIB, SOON, die_of_memory, known, oom_of, settled};
use crate::fixture::{Agent, AgentOptions, Received, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::MemoryCgroup,
    Capability::Btf,
    Capability::OomVictims,
    Capability::Loopback,
];

pub const TESTS: &[Test] = &[
    Test::new("oom_single", single).needs(NEEDS),
    Test::new("oom_limit_of_ancestor", ancestor).needs(NEEDS),
    Test::new("oom_in_old_and_new_cgroups", old_and_new_cgroups).needs(NEEDS),
];

const LIMIT: u64 = 32 * MIB;

/// An OOM kill is reported once and soon, with the victim's pid, cgroup, limit and memory.
fn single(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let group = root.child("victim")?;
    group.limit_memory(LIMIT)?;

    let before = SystemTime::now();
    let (pid, seen_dead) = die_of_memory(context, &group, 4 * LIMIT)?;
    let received =
        events.find(context.patiently(5), |event| event.cgroup.starts_with(root.group().path()))?;
    let received = known(received, "an OOM kill")?;

    let late = received.at.duration_since(seen_dead).unwrap_or_default();
    ensure!(late < SOON * context.patience, "the event came {late:?} after the death");
    let time = received.time()?;
    // The kernel's monotonic clock and the wall clock are read a little apart.
    let slack = Duration::from_millis(5);
    ensure!(time + slack >= before && time <= seen_dead + slack, "the event's time lies outside the kill");
    ensure_eq!(received.event.cgroup, group.path(), "the victim's cgroup");

    let oom = known(oom_of(&received.event), "the details of the kill")?;
    ensure_eq!(oom.pid, pid, "pid");
    ensure_eq!(oom.command, "nw-eater", "command");
    ensure_eq!(oom.scope, "cgroup", "scope");
    ensure_eq!(oom.limit_cgroup, group.path(), "cgroup of the limit");
    ensure_eq!(oom.limit_bytes, Some(LIMIT), "limit");
    ensure!(
        (LIMIT * 3 / 4..=LIMIT + MIB).contains(&oom.anon_rss_bytes),
        "anonymous memory at death was {} of a limit of {LIMIT}",
        oom.anon_rss_bytes
    );
    ensure!(oom.total_vm_bytes >= 4 * LIMIT, "address space at death was {}", oom.total_vm_bytes);
    ensure_eq!(oom.oom_score_adj, own_oom_score_adj()?, "oom_score_adj");
    ensure_eq!(oom.trigger_pid, pid, "pid of the process that ran out of memory");
    ensure_eq!(oom.trigger_command, "nw-eater", "command of the process that ran out of memory");
    ensure_eq!(oom.trigger_cgroup, group.path(), "cgroup of the process that ran out of memory");

    ensure_eq!(known(settled(&client, &group)?.oom_kills, "oom_kills")?, 1, "counted kills");
    ensure_eq!(group.kernel_oom_kills()?, 1, "the kernel's own count");
    no_more(&events.collect(Duration::from_millis(300), SOON, |event| event.cgroup == group.path())?)
}

/// The test's own `oom_score_adj`, which workers inherit.
fn own_oom_score_adj() -> Result<i32, Failure> {
    let path = "/proc/self/oom_score_adj";
    let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
    text.trim().parse().map_err(|_| Failure::Unexpected(format!("{path}: {text:?}")))
}

/// Checks that no further kill was reported.
fn no_more(more: &[Received]) -> Result<(), Failure> {
    ensure!(more.is_empty(), "the same kill was reported again: {:?}", more[0].event);
    Ok(())
}

/// When a parent's limit kills, the event has both the victim's cgroup and the cgroup of the limit.
fn ancestor(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let parent = root.child("parent")?;
    parent.limit_memory(LIMIT)?;
    let child = parent.child("child")?;

    let (pid, _) = die_of_memory(context, &child, 4 * LIMIT)?;
    let received =
        events.find(context.patiently(5), |event| event.cgroup.starts_with(root.group().path()))?;
    let received = known(received, "an OOM kill")?;
    let oom = known(oom_of(&received.event), "the details of the kill")?;
    ensure_eq!(received.event.cgroup, child.path(), "the victim's cgroup");
    ensure_eq!(oom.pid, pid, "pid");
    ensure_eq!(oom.limit_cgroup, parent.path(), "cgroup of the limit");
    ensure_eq!(oom.limit_bytes, Some(LIMIT), "limit");
    ensure_eq!(oom.scope, "cgroup", "scope");
    ensure_eq!(known(settled(&client, &child)?.oom_kills, "oom_kills")?, 1, "kills of the child");
    ensure_eq!(settled(&client, &parent)?.oom_kills.unwrap_or(0), 0, "kills of the parent itself");
    Ok(())
}

/// A kill is reported alike for a cgroup older than the agent and for one created later.
fn old_and_new_cgroups(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let early = root.child("early")?;
    early.limit_memory(LIMIT)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let late = root.child("late")?;
    late.limit_memory(2 * LIMIT)?;
    for (group, limit) in [(&early, LIMIT), (&late, 2 * LIMIT), (&early, LIMIT)] {
        let (pid, _) = die_of_memory(context, group, 4 * limit)?;
        let received =
            events.find(context.patiently(5), |event| event.cgroup.starts_with(root.group().path()))?;
        let received = known(received, "an OOM kill")?;
        let oom = known(oom_of(&received.event), "the details of the kill")?;
        ensure_eq!(received.event.cgroup, group.path(), "the victim's cgroup");
        ensure_eq!((oom.pid, oom.limit_bytes), (pid, Some(limit)), "pid and limit");
    }
    ensure_eq!(known(settled(&client, &early)?.oom_kills, "oom_kills")?, 2, "kills in the older cgroup");
    ensure_eq!(known(settled(&client, &late)?.oom_kills, "oom_kills")?, 1, "kills in the newer cgroup");
    Ok(())
}
