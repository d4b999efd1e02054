//! What was seen is still known after a restart.

use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::support::{MIB, die_of_memory, eventually, known, oom_of, since};
use crate::fixture::{Agent, AgentOptions, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::MemoryCgroup, Capability::Btf, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("journal_survives_restart", restart).needs(NEEDS),
    Test::new("journal_since_then_live", since_then_live).needs(NEEDS),
];

/// Longer than the journal keeps an event from the disk.
const FLUSHED: Duration = Duration::from_secs(1);

/// Both a good end and kill -9 (after what a flush may take).
fn restart(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("victim")?;
    group.limit_memory(16 * MIB)?;
    let begun = SystemTime::now();
    let state = context.temp.join("state");
    let options = AgentOptions { state: Some(state), ..Default::default() };
    let mut pids = Vec::new();
    let mut last_seq = 0;
    for end in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut agent = Agent::start(context, &options)?;
        let client = agent.client()?;
        let events = client.watch_types(&["oom"])?;
        let (pid, _) = die_of_memory(context, &group, 64 * MIB)?;
        pids.push(pid);
        let seen = events.find(context.patiently(5), |event| event.cgroup == group.path())?;
        let seq = known(seen, "the kill")?.event.seq;
        ensure!(seq > last_seq, "the sequence number fell from {last_seq} to {seq}");
        last_seq = seq;
        std::thread::sleep(FLUSHED);
        drop(client);
        agent.end(end, context.patiently(5))?;
    }

    let agent = Agent::start(context, &options)?;
    let client = agent.client()?;
    // It ends with what is kept.
    let kept = client.watch(since(begun, &["oom"]))?.collect(
        context.patiently(5),
        context.patiently(5),
        |event| event.cgroup == group.path(),
    )?;
    let kept_pids: Vec<u32> =
        kept.iter().filter_map(|received| oom_of(&received.event)).map(|oom| oom.pid).collect();
    ensure_eq!(kept_pids, pids, "pids of the kills in the journal");
    ensure_eq!(kept.last().map(|received| received.event.seq), Some(last_seq), "sequence number of the last");

    let output = agent.command(&["events", "--output", "json", "--since", "10m", "--no-follow"])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "`nodewarden events` ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    for pid in pids {
        ensure!(
            text.contains(&format!("\"pid\":{pid}")),
            "`nodewarden events --since` does not show pid {pid}"
        );
    }
    Ok(())
}

/// A subscription from the past shows the past once, then what happens, without a gap.
fn since_then_live(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("victim")?;
    group.limit_memory(16 * MIB)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let begun = SystemTime::now();
    let (first, _) = die_of_memory(context, &group, 64 * MIB)?;
    eventually(context.patiently(5), "the first kill is not in the journal", || {
        let past = client.watch(since(begun, &["oom"]))?;
        let found = past.find(context.patiently(1), |event| event.cgroup == group.path());
        Ok(found.ok().flatten())
    })?;

    let mut request = since(begun, &["oom"]);
    request.no_follow = false;
    let events = client.watch(request)?;
    let (second, _) = die_of_memory(context, &group, 64 * MIB)?;
    let seen = events.expect(2, context.patiently(5), |event| event.cgroup == group.path())?;
    let pids: Vec<u32> =
        seen.iter().filter_map(|received| oom_of(&received.event)).map(|oom| oom.pid).collect();
    ensure_eq!(pids, [first, second], "pids of past and live kills");
    Ok(())
}
