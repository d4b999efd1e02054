//! Kubernetes Events about what no component of Kubernetes reports.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fixture::{Augmented, NEEDS};
use crate::e2e::pressure::fixture::metric;
use crate::e2e::support::{MIB, die_of_memory, eventually, kill_victims};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

/// What measures a time below a second, and makes hundreds of kills.
pub const ALONE: &[Test] = &[Test::new("augment_event_of_an_oom_kill", oom).timeout(120).needs(&[
    Capability::Root,
    Capability::MemoryCgroup,
    Capability::CpuQuota,
    Capability::Loopback,
    Capability::Btf,
    Capability::OomVictims,
])];

pub const TESTS: &[Test] = &[
    Test::new("augment_event_of_a_crash", crash).timeout(60).needs(&[
        Capability::Root,
        Capability::MemoryCgroup,
        Capability::CpuQuota,
        Capability::Loopback,
        Capability::Btf,
    ]),
    Test::new("augment_event_of_a_changed_limit", limit).timeout(120).needs(NEEDS),
];

const ONLY_EVENTS: &str = "events: Enforce, protection: Off, memoryHigh: Off, cpuIdle: Off, cpuBurst: Off";

/// A kill has an Event within a second; many kills have few requests, and are counted exactly.
fn oom(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let agent = node.start(ONLY_EVENTS, &context.temp.join("state"))?;
    node.container.limit_memory(32 * MIB)?;
    wait_followed(&node)?;
    let (pid, _) = die_of_memory(context, &node.container, 128 * MIB)?;
    let seen = Instant::now();
    let event =
        eventually(node.wait(5), "there is no Event of the kill", || Ok(of(&node, "OOMKilling").pop()))?;
    ensure!(seen.elapsed() < node.wait(1), "the Event came {:?} after the death", seen.elapsed());
    ensure_eq!(event["involvedObject"]["name"], "limited", "the pod: {event}");
    ensure_eq!(event["involvedObject"]["uid"], super::fixture::limited_uid(), "its uid");
    ensure_eq!(event["source"]["component"], "nodewarden", "who reports");
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains(&format!("(pid {pid})")) && message.contains("memory limit of 32 MiB"),
        "message: {message}"
    );

    const KILLS: u32 = 200;
    let before = node.api.changes();
    kill_victims(context, &node.container, KILLS, 64 * MIB)?;
    let counted = || metric(&agent, "nodewarden_augment_incidents_total", ("reason", "OOMKilling"));
    eventually(node.wait(20), "not every kill is counted", || {
        Ok((counted()? == f64::from(KILLS + 1)).then_some(()))
    })?;
    std::thread::sleep(node.wait(2));
    let requests = node.api.changes() - before;
    // The budget of one object: 25 at once, and one more every five minutes.
    ensure!(requests <= 26, "{requests} changes at the API server for {KILLS} kills");
    ensure_eq!(counted()?, f64::from(KILLS + 1), "counted kills");
    drop(agent);
    Ok(())
}

/// A child that crashes while its container goes on has an Event; the container's first process, whose end the kubelet
/// reports, has none, nor has a child that is asked to end.
fn crash(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let _agent = node.start(ONLY_EVENTS, &context.temp.join("state"))?;
    wait_followed(&node)?;
    let enter: String =
        node.container.procs_files().iter().map(|file| format!("echo $$ > {} && ", file.display())).collect();
    let run = |commands: &str| {
        let status = Command::new("/bin/sh").args(["-c", &format!("{enter}{commands}")]).status();
        status.map_err(Failure::file("/bin/sh"))
    };
    run("{ sh -c 'kill -TERM $$'; sh -c 'exit 3'; true; }")?;
    run("kill -SEGV $$")?;
    let status = run("{ sh -c 'kill -SEGV $$'; true; }")?;
    ensure!(status.success(), "the container's first process ended with {status}");
    let event =
        eventually(
            node.wait(10),
            "there is no Event of the crash",
            || Ok(of(&node, "ProcessCrashed").pop()),
        )?;
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(message.contains("Process sh ") && message.contains("SIGSEGV"), "message: {message}");
    ensure_eq!(event["involvedObject"]["name"], "limited", "the pod");
    std::thread::sleep(node.wait(1));
    ensure_eq!(of(&node, "ProcessCrashed").len(), 1, "Events of crashes");
    Ok(())
}

/// The pods are known when one of them has an Event: waits for a harmless one.
fn wait_followed(node: &Augmented<'_>) -> Result<(), Failure> {
    node.api.change_spec("limited", |_| {});
    // The list is read within moments of the start; names of pods come from it.
    std::thread::sleep(node.wait(2));
    Ok(())
}

/// Somebody changes a limit although the spec is as it was.
fn limit(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let _agent = node.start(ONLY_EVENTS, &context.temp.join("state"))?;
    // A cgroup that is just being made gets its limits one after the other.
    std::thread::sleep(node.wait(17));
    node.limited.limit_memory(64 * MIB)?;
    let event = eventually(node.wait(20), "there is no Event of the changed limit", || {
        Ok(of(&node, "LimitChanged").pop())
    })?;
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(message.contains("was no limit and is 67108864 now"), "message: {message}");
    ensure_eq!(event["involvedObject"]["name"], "limited", "the pod");
    std::thread::sleep(Duration::from_secs(6));
    ensure_eq!(of(&node, "LimitChanged").len(), 1, "Events");
    Ok(())
}

fn of(node: &Augmented<'_>, reason: &str) -> Vec<Value> {
    node.api.events().into_iter().filter(|event| event["reason"] == reason).collect()
}
