//! Kubernetes Events about what no component of Kubernetes reports.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fixture::{Augmented, NEEDS, QUOTA_US, limited_uid};
use crate::e2e::pressure::fixture::{metric, output_of};
use crate::e2e::support::{MIB, die_of_memory, eventually, kill_victims};
use crate::fixture::{Group, Worker};
use crate::harness::{Capability, Context, Failure, REPORTED, Test, writers_are_seen_by};
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

/// Kills on an ordinary and on an emulated machine; more than there may be requests.
const KILLS: [u32; 2] = [200, 60];

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
    let late = seen.elapsed();
    println!("{REPORTED}the Event came {} ms after the death", late.as_millis());
    ensure!(late < node.wait(1), "the Event came {late:?} after the death");
    ensure_eq!(event["involvedObject"]["name"], "limited", "the pod: {event}");
    ensure_eq!(event["involvedObject"]["uid"], limited_uid(), "its uid");
    ensure_eq!(event["source"]["component"], "nodewarden", "who reports");
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains(&format!("(pid {pid})")) && message.contains("memory limit of 32 MiB"),
        "message: {message}"
    );

    let kills = context.scaled(KILLS);
    let before = node.api.changes();
    kill_victims(context, &node.container, kills, 64 * MIB)?;
    let counted = || metric(&agent, "nodewarden_augment_incidents_total", ("reason", "OOMKilling"));
    eventually(node.wait(20), "not every kill is counted", || {
        Ok((counted()? == f64::from(kills + 1)).then_some(()))
    })?;
    std::thread::sleep(node.wait(2));
    let requests = node.api.changes() - before;
    // The budget of one object: 25 at once, and one more every five minutes.
    ensure!(requests <= 26, "{requests} changes at the API server for {kills} kills");
    ensure_eq!(counted()?, f64::from(kills + 1), "counted kills");
    drop(agent);
    Ok(())
}

/// A child that crashes while its container goes on has an Event; the container's first process, whose end
/// the kubelet reports, has none, nor has a child that is asked to end.
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

/// Another program writes limits although the spec has not changed. The Event names its process where the
/// kernel has kprobes, or fanotify that watches cgroups.
fn limit(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let agent = node.start_with_few_rounds(ONLY_EVENTS, &context.temp.join("state"))?;
    let status = agent.client()?.status()?;
    let topic = status.topics.iter().find(|topic| topic.topic == "limit_writes");
    let topic = topic.ok_or_else(|| Failure::Unexpected("the topic limit_writes is not shown".into()))?;
    let sees = topic.state == "on" || topic.reason.starts_with("fanotify is used instead");
    ensure!(sees || !topic.reason.is_empty(), "the topic limit_writes is {} without a reason", topic.state);
    if let (false, Some(by)) = (sees, writers_are_seen_by()) {
        return Err(Failure::Unexpected(format!("not seen although there is {by}: {}", topic.reason)));
    }
    let seen = if sees { "seen".to_owned() } else { format!("not seen: {}", topic.reason) };
    println!("{REPORTED}who writes limits is {seen}");
    // A cgroup that is just being made gets its limits one after the other.
    std::thread::sleep(Duration::from_secs(17) + node.wait(1));
    let writer = node.child("writer")?;
    let (memory, cpu) = (node.limited.hierarchy("memory")?, node.container.hierarchy("cpu")?);
    let limit = if memory.v2 { "memory.max" } else { "memory.limit_in_bytes" };
    let quota = if cpu.v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
    let of_pod = other_writes(context, &writer, "64M", &node.limited.directory(memory).join(limit))?;
    let of_container = other_writes(context, &writer, "40000", &node.container.directory(cpu).join(quota))?;
    let events = eventually(node.wait(20), "there are no Events of the changed limits", || {
        let events = of(&node, "LimitChanged");
        Ok((events.len() >= 2).then_some(events))
    })?;
    let explained = output_of(&agent, &["explain", &limited_uid()])?;
    for (change, who) in [
        (format!("{limit} of {} was no limit and is 67108864 now", node.limited.path()), of_pod),
        (format!("{quota} of {} was {QUOTA_US} and is 40000 now", node.container.path()), of_container),
    ] {
        let by = |who: &str| if sees { format!(", written by {who}") } else { String::new() };
        let expected = |who: &str| format!("{change}{}, although the pod's spec has not changed", by(who));
        let mut names = vec![who.clone()];
        // fanotify has less of one that has ended before the agent looks at it.
        if topic.state != "on"
            && let Some((command, rest)) = who.split_once(" (pid ")
            && let Some((pid, _)) = rest.split_once(',')
        {
            names.extend([command, "a process that has ended"].map(|name| format!("{name} (pid {pid})")));
        }
        let is_it = |event: &&Value| names.iter().any(|who| event["message"] == *expected(who));
        let found = events.iter().find(is_it);
        let expected = found.and_then(|event| event["message"].as_str().map(str::to_owned));
        let expected = expected.unwrap_or_else(|| format!("{change} by {who}"));
        let event = found.ok_or_else(|| Failure::Unexpected(format!("no {expected:?} in {events:?}")))?;
        ensure_eq!(event["involvedObject"]["name"], "limited", "the pod");
        ensure!(explained.contains(&expected), "explained without {expected:?}: {explained}");
    }
    std::thread::sleep(Duration::from_secs(6));
    ensure_eq!(of(&node, "LimitChanged").len(), 2, "Events");
    Ok(())
}

/// Has a process in this cgroup write a file and end at once. Returns how the agent names it.
fn other_writes(context: &Context, group: &Group, text: &str, file: &Path) -> Result<String, Failure> {
    let path = file.display().to_string();
    let mut other = Worker::spawn(context, Some(group), &["write-text", &path, text])?;
    let pid = other.pid();
    let comm = format!("/proc/{pid}/comm");
    let command = std::fs::read_to_string(&comm).map_err(Failure::file(&comm))?;
    other.go()?;
    let status = other.wait(context.patiently(5))?;
    ensure!(status.success(), "writing {text:?} to {path}: {status}");
    Ok(format!("{} (pid {pid}, cgroup {})", command.trim(), group.path()))
}

fn of(node: &Augmented<'_>, reason: &str) -> Vec<Value> {
    node.api.events().into_iter().filter(|event| event["reason"] == reason).collect()
}
