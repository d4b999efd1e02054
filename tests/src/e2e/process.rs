//! Counts of forks, execs and exits, and events of abnormal exits.

use std::time::Duration;

use nodewarden_proto::nodewarden::v1::event::Detail;
use nodewarden_proto::nodewarden::v1::{Cgroup, Exit};

use super::support::{known, settled};
use crate::fixture::{Agent, AgentOptions, Client, Events, Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::Processed;
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] = &[Capability::Root, Capability::Btf, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("process_counters", counters).needs(NEEDS),
    Test::new("process_exit_events", exit_events).needs(NEEDS),
    Test::new("process_with_threads_exits_once", threads).needs(NEEDS),
];

/// Forks, execs, exits and exits by a signal of a cgroup are counted exactly.
fn counters(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let group = root.child("counted")?;
    let arguments = ["processes", "200", "--execs", "50", "--killed", "30"];
    let mut worker = Worker::spawn(context, Some(&group), &arguments)?;

    // The worker entered the cgroup after its fork and before its exec.
    let before = settled(&client, &group)?;
    ensure_eq!(
        read(&before)?,
        Processed { forks: 0, execs: 1, exits: 0, signal_exits: 0 },
        "the worker's start"
    );
    worker.go()?;
    let done: Processed = worker.report(context.patiently(20))?;
    let after = settled(&client, &group)?;
    let expected = Processed { execs: done.execs + 1, ..done };
    ensure_eq!(read(&after)?, expected, "forks, execs, exits and exits by signal");

    worker.finish(context.patiently(5))?;
    let end = settled(&client, &group)?;
    ensure_eq!(read(&end)?, Processed { exits: done.exits + 1, ..expected }, "after the worker's own exit");
    Ok(())
}

/// The end of a process with 200 threads is one exit, however it ends, and a kill of it one event.
fn threads(context: &Context) -> Result<(), Failure> {
    const ROUNDS: [u64; 2] = [10, 3];
    let rounds = context.scaled(ROUNDS);
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["exit"])?;
    let group = root.child("threads")?;
    let arguments = ["threaded-processes", &rounds.to_string(), "200"];
    let mut worker = Worker::spawn(context, Some(&group), &arguments)?;
    let before = read(&settled(&client, &group)?)?;
    let skipped_before = skipped_exits(&client)?;
    worker.go()?;
    let done: Processed = worker.report(context.patiently(60))?;
    let after = read(&settled(&client, &group)?)?;
    // The kernel skips a program that is preempted inside by a task which comes to the same hook, and the
    // agent says how often: so many exits may be missing, and no more.
    let skipped = skipped_exits(&client)? - skipped_before;
    let missing = |expected: u64, seen: u64| seen <= expected && expected - seen <= skipped;
    let expected = Processed { execs: before.execs, ..done };
    let (exits, signal_exits) = (expected.exits, expected.signal_exits);
    ensure!(
        missing(exits, after.exits) && missing(signal_exits, after.signal_exits),
        "{after:?}, not {expected:?}; the kernel skipped the program {skipped} times"
    );
    ensure_eq!(
        after,
        Processed { exits: after.exits, signal_exits: after.signal_exits, ..expected },
        "the others"
    );
    let killed = events
        .collect(Duration::from_millis(500), context.patiently(2), |event| event.cgroup == group.path())?;
    ensure!(missing(rounds, killed.len() as u64), "{} events of {rounds} killed processes", killed.len());
    Ok(())
}

/// How often the kernel has skipped the programs that see ends of processes; 0 where it does not say (before
/// Linux 5.12).
fn skipped_exits(client: &Client) -> Result<u64, Failure> {
    let programs = client.status()?.programs;
    let of_exits = programs.iter().filter(|program| program.hook.ends_with("sched_process_exit"));
    Ok(of_exits.filter_map(|program| program.recursion_misses).sum())
}

/// The agent's counters of a cgroup.
fn read(group: &Cgroup) -> Result<Processed, Failure> {
    Ok(Processed {
        forks: known(group.forks, "forks")?,
        execs: known(group.execs, "execs")?,
        exits: known(group.exits, "exits")?,
        signal_exits: known(group.signal_exits, "signal_exits")?,
    })
}

/// A crash and a non-zero exit of a cgroup's main process are reported as events; an exit with 0 is not.
fn exit_events(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["exit"])?;

    let group = root.child("main")?;
    for (arguments, code, signal) in
        [(["segv"].as_slice(), 0, libc::SIGSEGV as u32), (["exit", "3"].as_slice(), 3, 0)]
    {
        let mut worker = Worker::start(context, Some(&group), arguments)?;
        worker.wait(context.patiently(5))?;
        let exit = next_exit(context, &events, &group)?;
        ensure_eq!(exit.pid, worker.pid(), "pid after {arguments:?}");
        ensure_eq!((exit.code, exit.signal), (code, signal), "code and signal after {arguments:?}");
        ensure!(exit.main, "after {arguments:?} the cgroup's first process is not reported as its main one");
        ensure!(exit.command.starts_with("nodewarden"), "command after {arguments:?} is {:?}", exit.command);
    }

    // An exit with 0 is not abnormal, nor is a child's exit with a code.
    let mut worker = Worker::start(context, Some(&group), &["exit", "0"])?;
    worker.wait(context.patiently(5))?;
    let more = events
        .collect(Duration::from_millis(500), context.patiently(2), |event| event.cgroup == group.path())?;
    ensure!(more.is_empty(), "an event for an exit with 0: {:?}", more[0].event);
    Ok(())
}

fn next_exit(context: &Context, events: &Events, group: &Group) -> Result<Exit, Failure> {
    let received = events.find(context.patiently(3), |event| event.cgroup == group.path())?;
    match known(received, "an abnormal exit")?.event.detail {
        Some(Detail::Exit(exit)) => Ok(exit),
        other => Err(Failure::Unexpected(format!("an exit event with {other:?}"))),
    }
}
