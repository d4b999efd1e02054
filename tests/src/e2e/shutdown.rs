//! However the agent ends, nothing of it stays in the kernel, and the next one starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::fixture::{Agent, AgentOptions, BpfObjects, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] = &[Capability::Root, Capability::Btf, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("interrupt_ends_cleanly", interrupt).needs(NEEDS),
    Test::new("kill9_leaves_nothing", kill9).needs(NEEDS).timeout(400),
];

/// The kernel frees programs and links some time after their last user went.
const FREED: Duration = Duration::from_secs(2);
/// On an ordinary and on an emulated machine.
const KILLS: [u64; 2] = [50, 6];

/// Ctrl-C and SIGTERM: exit code 0 within 5 s, with and without a client that follows.
fn interrupt(context: &Context) -> Result<(), Failure> {
    for (signal, followed) in [(Signal::SIGINT, false), (Signal::SIGINT, true), (Signal::SIGTERM, true)] {
        let before = BpfObjects::all()?;
        let mut agent = Agent::start(context, &AgentOptions::default())?;
        let held = BpfObjects::held_by(agent.pid());
        ensure!(!held.programs.is_empty(), "the agent holds no kernel program");
        let client = if followed { Some(agent.client()?) } else { None };
        let _events = client.as_ref().map(|client| client.watch_types(&[])).transpose()?;
        let status = agent.end(signal, Duration::from_secs(5) * context.patience)?;
        ensure!(status.success(), "after {signal} the agent ended with {status}");
        ensure!(!agent.socket().exists(), "after {signal} the socket is still there");
        nothing_left(context, &before, &held)?;
    }
    Ok(())
}

/// kill -9, again and again, while processes and cgroups come and go: once ready, and on the way there.
fn kill9(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let busy = root.child("busy")?;
    let _load = (0..context.scaled([2, 1]))
        .map(|_| Worker::start(context, Some(&busy), &["fork-forever"]))
        .collect::<Result<Vec<_>, _>>()?;
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

fn kill_often(context: &Context, options: &AgentOptions) -> Result<(), Failure> {
    let before = BpfObjects::all()?;
    for i in 0..context.scaled(KILLS) {
        let mut agent = Agent::spawn(context, options)?;
        if i % 5 == 4 {
            // On its way up: each time a little further.
            std::thread::sleep(Duration::from_millis(30 * (i / 5 + 1)) * context.patience);
        } else {
            agent.wait_ready()?;
            std::thread::sleep(Duration::from_millis(i % 7 * 10));
        }
        let held = BpfObjects::held_by(agent.pid());
        agent.end(Signal::SIGKILL, context.patiently(20))?;
        nothing_left(context, &before, &held)?;
    }
    Ok(())
}

/// Makes and removes cgroups until told to stop.
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

fn nothing_left(context: &Context, before: &BpfObjects, held: &BpfObjects) -> Result<(), Failure> {
    let wait = FREED * context.patience;
    let still = held.still_there(wait)?;
    ensure!(still.is_empty(), "what the agent held is still loaded: {still:?}");
    let left = before.left_since(wait)?;
    ensure!(left.is_empty(), "loaded since and held by no process: {left:?}");
    ensure_eq!(own_cgroups(context), 0, "cgroups named after the agent");
    Ok(())
}

/// Observing makes no cgroup: none of its own name may appear anywhere at the top.
fn own_cgroups(context: &Context) -> usize {
    context
        .layout
        .hierarchies()
        .iter()
        .flat_map(|hierarchy| std::fs::read_dir(&hierarchy.mount).into_iter().flatten().flatten())
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("nodewarden") && !name.starts_with(crate::harness::NAME_PREFIX)
        })
        .count()
}
