//! The agent leaves nothing in the kernel when it ends, and the next agent starts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::ensure;
use crate::fixture::{Agent, AgentOptions, BpfObjects, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};

const NEEDS: &[Capability] = &[Capability::Root, Capability::Btf, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("interrupt_ends_cleanly", interrupt).needs(NEEDS),
    Test::new("kill9_leaves_nothing", kill9).needs(NEEDS).timeout(400),
];

/// Time that the kernel may take to free programs and links after their last user exited.
const FREED: Duration = Duration::from_secs(2);
/// Number of kills on an ordinary and on an emulated machine.
const KILLS: [u64; 2] = [50, 6];

/// After SIGINT and SIGTERM the agent exits with 0 within 5 s, also while a client follows events, and leaves
/// nothing in the kernel.
fn interrupt(context: &Context) -> Result<(), Failure> {
    for (signal, followed) in [(Signal::SIGINT, false), (Signal::SIGINT, true), (Signal::SIGTERM, true)] {
        let before = BpfObjects::all()?;
        let cgroups = own_cgroups(context);
        let mut agent = Agent::start(context, &AgentOptions::default())?;
        let held = BpfObjects::held_by(agent.pid());
        ensure!(!held.programs.is_empty(), "the agent holds no kernel program");
        let client = if followed { Some(agent.client()?) } else { None };
        let _events = client.as_ref().map(|client| client.watch_types(&[])).transpose()?;
        let status = agent.end(signal, Duration::from_secs(5) * context.patience)?;
        ensure!(status.success(), "after {signal} the agent ended with {status}");
        ensure!(!agent.socket().exists(), "after {signal} the socket is still there");
        nothing_left(context, &before, &cgroups, &held)?;
    }
    Ok(())
}

/// kill -9 leaves no program, link or cgroup, when ready and during the start, while processes and cgroups
/// come and go.
fn kill9(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let busy = root.child("busy")?;
    // One CPU stays for what has the lowest priority: while that waits within the kernel, no program is
    // freed.
    let _load = Worker::start(context, Some(&busy), &["fork-forever"])?;
    let state = context.temp.join("state");
    let options = AgentOptions { state: Some(state), ..Default::default() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| churn(&root, &done));
        let result = kill_often(context, &options);
        done.store(true, Ordering::Relaxed);
        match churn.join() {
            Ok(churned) => result.and(churned),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;

    let agent = Agent::start(context, &options)?;
    let status = agent.client()?.status()?;
    for topic in status.topics.iter().filter(|topic| topic.state == "off") {
        let needs_unified = topic.topic == "network" && context.layout.unified().is_none();
        ensure!(needs_unified, "after the kills topic {} is off: {}", topic.topic, topic.reason);
    }
    Ok(())
}

/// Starts and kills agents, every fifth one before it is ready.
fn kill_often(context: &Context, options: &AgentOptions) -> Result<(), Failure> {
    let before = BpfObjects::all()?;
    let cgroups = own_cgroups(context);
    for i in 0..context.scaled(KILLS) {
        let mut agent = Agent::spawn(context, options)?;
        if i % 5 == 4 {
            // During the start, each time a little later.
            std::thread::sleep(Duration::from_millis(30 * (i / 5 + 1)) * context.patience);
        } else {
            agent.wait_ready()?;
            std::thread::sleep(Duration::from_millis(i % 7 * 10));
        }
        let held = BpfObjects::held_by(agent.pid());
        agent.end(Signal::SIGKILL, context.patiently(20))?;
        nothing_left(context, &before, &cgroups, &held)?;
    }
    Ok(())
}

/// Creates and removes cgroups until `done` is set.
fn churn(root: &TestRoot, done: &AtomicBool) -> Result<(), Failure> {
    let mut i = 0u64;
    while !done.load(Ordering::Relaxed) {
        let group = root.child(&format!("churn{i}"))?;
        group.remove()?;
        i += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Checks that the kernel objects that the agent held are freed, and that no new ones or cgroups are left.
fn nothing_left(
    context: &Context,
    before: &BpfObjects,
    cgroups: &BTreeSet<PathBuf>,
    held: &BpfObjects,
) -> Result<(), Failure> {
    let wait = FREED * context.patience;
    let still_loaded = held.still_there(wait)?;
    ensure!(still_loaded.is_empty(), "what the agent held is still loaded: {still_loaded:?}");
    let left = before.left_since(wait)?;
    ensure!(left.is_empty(), "loaded meanwhile and held by no process: {left:?}");
    let new: Vec<_> = own_cgroups(context).difference(cgroups).cloned().collect();
    ensure!(new.is_empty(), "cgroups named after the agent that were not there before: {new:?}");
    Ok(())
}

/// Paths of cgroups named after the agent at the top of any hierarchy. In observe mode the agent creates
/// none; another agent of this machine may have some.
fn own_cgroups(context: &Context) -> BTreeSet<PathBuf> {
    context
        .layout
        .hierarchies()
        .iter()
        .flat_map(|hierarchy| std::fs::read_dir(&hierarchy.mount).into_iter().flatten().flatten())
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("nodewarden") && !name.starts_with(crate::harness::NAME_PREFIX)
        })
        .map(|entry| entry.path())
        .collect()
}
