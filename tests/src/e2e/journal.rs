//! The journal keeps events across restarts, and clients read past and live events from it.

use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::support::{MIB, die_of_memory, eventually, known, oom_of, since};
use crate::fixture::{Agent, AgentOptions, TestRoot};
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
    Test::new("journal_survives_restart", restart).needs(NEEDS),
    Test::new("journal_past_then_live_events", past_then_live).needs(NEEDS),
];

/// Longer than the journal takes to write an event to disk.
const FLUSHED: Duration = Duration::from_secs(1);

/// Events are still there, with their sequence numbers, after SIGTERM and after kill -9 (once they were
/// flushed).
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
        ensure!(seq > last_seq, "the sequence number did not grow: from {last_seq} to {seq}");
        last_seq = seq;
        std::thread::sleep(FLUSHED);
        drop(client);
        agent.end(end, context.patiently(5))?;
    }

    let agent = Agent::start(context, &options)?;
    let client = agent.client()?;
    // The stream ends after the last stored event.
    let stored = client.watch(since(begun, &["oom"]))?.collect(
        context.patiently(5),
        context.patiently(5),
        |event| event.cgroup == group.path(),
    )?;
    let stored_pids: Vec<u32> =
        stored.iter().filter_map(|received| oom_of(&received.event)).map(|oom| oom.pid).collect();
    ensure_eq!(stored_pids, pids, "pids of the kills in the journal");
    ensure_eq!(
        stored.last().map(|received| received.event.seq),
        Some(last_seq),
        "sequence number of the last"
    );

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

/// A subscription since a past time shows stored events once, then live ones, without a gap.
fn past_then_live(context: &Context) -> Result<(), Failure> {
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
