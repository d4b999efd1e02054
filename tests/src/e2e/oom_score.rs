//! Effect of `oom_score_adj` on the OOM killer's choice, and what the agent reports of it.

use std::os::unix::process::ExitStatusExt;

use nodewarden_proto::nodewarden::v1::OomKill;

use super::support::{MIB, eventually, known, oom_of};
use crate::fixture::{Agent, AgentOptions, Client, Events, Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("oom_score_adj_decides_victim", decides_victim).needs(&[
    Capability::Root,
    Capability::MemoryCgroup,
    Capability::LowerOomScore,
    Capability::OomVictims,
    Capability::Btf,
    Capability::Loopback,
])];

const LIMIT: u64 = 48 * MIB;

/// The smaller process is killed when the larger one has a lowered score; alone, even a process with a
/// lowered score is killed.
fn decides_victim(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client: Client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let group = root.child("two")?;
    group.limit_memory(LIMIT)?;

    let mut large = Worker::spawn(context, Some(&group), &["eat-memory", &(LIMIT * 2 / 3).to_string()])?;
    set_score(large.pid(), -900)?;
    large.go()?;
    eventually(context.patiently(10), "the large process does not grow", || {
        Ok((resident(large.pid())? >= LIMIT * 2 / 3).then_some(()))
    })?;
    let mut small = Worker::spawn(context, Some(&group), &["eat-memory", &LIMIT.to_string()])?;
    set_score(small.pid(), -5)?;
    small.go()?;
    let killed = next_kill(context, &events, &group)?;
    ensure_eq!((killed.pid, killed.oom_score_adj), (small.pid(), -5), "pid and oom_score_adj of the victim");
    ensure_eq!(
        small.wait(context.patiently(10))?.signal(),
        Some(libc::SIGKILL),
        "signal that ended the small process"
    );
    ensure!(resident(large.pid())? >= LIMIT * 2 / 3, "the process with the lowered score lost its memory");
    drop(large);

    let mut alone = Worker::spawn(context, Some(&group), &["eat-memory", &(4 * LIMIT).to_string()])?;
    set_score(alone.pid(), -999)?;
    alone.go()?;
    let killed = next_kill(context, &events, &group)?;
    ensure_eq!(
        (killed.pid, killed.oom_score_adj),
        (alone.pid(), -999),
        "pid and oom_score_adj of the only process"
    );
    ensure_eq!(group.kernel_oom_kills()?, 2, "the kernel's own count");
    Ok(())
}

/// The next OOM kill that is reported in the group.
fn next_kill(context: &Context, events: &Events, group: &Group) -> Result<OomKill, Failure> {
    let received = events.find(context.patiently(15), |event| event.cgroup == group.path())?;
    let event = known(received, "an OOM kill")?.event;
    Ok(known(oom_of(&event), "the details of the kill")?.clone())
}

/// Sets a process's `oom_score_adj`.
fn set_score(pid: u32, score: i32) -> Result<(), Failure> {
    let path = format!("/proc/{pid}/oom_score_adj");
    std::fs::write(&path, score.to_string()).map_err(Failure::file(&path))
}

/// Anonymous memory of a running process in bytes.
fn resident(pid: u32) -> Result<u64, Failure> {
    super::offsets::status_bytes(pid, "RssAnon")
}
