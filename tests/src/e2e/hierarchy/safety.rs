//! What must not happen: a stranger's pod killed, a pod gone because its manifest cannot be read, a limit that kills.

use nix::sys::signal::Signal;
use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::json;

use super::compare::{children, place, plain};
use super::managed::{Driver, Managed, a_moment_ago, status};
use super::pods::{path, pod, uid};
use crate::e2e::support::{MIB, eventually, since};
use crate::fixture::{Agent, Group, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::MemoryCgroup, Capability::CpuCgroup, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("foreign_pods_are_left_alone", foreign).needs(NEEDS),
    Test::new("an_unreadable_manifest_takes_no_pod", unreadable).needs(NEEDS).timeout(120),
    Test::new("no_memory_limit_below_use", deferred).needs(NEEDS),
    Test::new("a_missing_reserved_cgroup_is_named", reserved).needs(NEEDS),
    Test::new("no_levels_without_cgroups_per_qos", flat).needs(NEEDS),
];

/// A pod of a kubelet, say, with a process.
fn foreign(context: &Context) -> Result<(), Failure> {
    let managed = Managed::new(context, Driver::Cgroupfs, 1, "")?;
    let mut large = pod(1);
    // Enough to be seen in a weight.
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("700m");
    managed.write("p1", &large)?;
    let mut agent = managed.start()?;
    managed.settled(&agent, 1)?;
    // Levels and pod are made before anybody scrapes.
    let metrics = agent.get("/metrics")?.text();
    let made = "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"create\"}";
    ensure!(metrics.contains(made), "{made} is not in /metrics");
    agent.end(Signal::SIGKILL, context.patiently(20))?;
    let path = format!("{}/podstranger", managed.level("kubepods/burstable"));
    let strangers =
        Group::new(context.layout.clone(), managed.level("kubepods/burstable")).child("podstranger")?;
    let worker = Worker::start(context, Some(&strangers), &["sleep"])?;
    let shares = |level: &str| -> Result<String, Failure> {
        let file =
            if context.layout.controller("cpu").is_some_and(|h| h.v2) { "cpu.weight" } else { "cpu.shares" };
        read(context, &managed.level(level), file)
    };
    let before = shares("kubepods/burstable")?;
    // Its pods would be starved by a level without them.
    managed.remove("p1")?;
    let agent = managed.start()?;
    managed.settled(&agent, 0)?;
    let status = managed.reconciled(&agent)?;
    ensure_eq!(status.foreign, [path], "strangers");
    ensure_eq!(shares("kubepods/burstable")?, before, "share of a level that a stranger's pod is in");
    worker.finish(context.patiently(5))?;
    strangers.remove_when_empty(context.patiently(5))?;
    eventually(context.patiently(10), "the level keeps its share", || {
        Ok((shares("kubepods/burstable")? != before).then_some(()))
    })
}

fn unreadable(context: &Context) -> Result<(), Failure> {
    let managed = Managed::new(context, Driver::Cgroupfs, 1, "fileCheckFrequency: 1s\n")?;
    managed.write("p1", &pod(1))?;
    managed.write("p2", &pod(2))?;
    let mut agent = managed.start()?;
    managed.settled(&agent, 2)?;
    let there = |i: u64| -> bool {
        let path = managed.below_root(&path(i));
        place(&context.layout, &path, "memory.stat").is_some_and(|p| p.exists())
    };
    let told = |agent: &Agent, what: &str| {
        eventually(context.patiently(10), &format!("no problem that names {what}"), || {
            Ok(status(agent)?.problems.iter().any(|p| p.contains(what)).then_some(()))
        })
    };
    managed.write_text("p1", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"meta")?;
    told(&agent, "p1.json")?;
    for _ in 0..2 {
        managed.reconciled(&agent)?;
        ensure!(there(1) && there(2), "a pod went with its manifest half written");
        // An agent that has never read the manifest keeps the pod as well.
        agent.end(Signal::SIGKILL, context.patiently(20))?;
        agent = managed.start()?;
        told(&agent, "p1.json")?;
    }
    managed.write("p1", &pod(1))?;
    managed.settled(&agent, 2)?;
    let aside = context.temp.join("aside");
    std::fs::rename(managed.manifests(), &aside).map_err(Failure::file(&aside))?;
    told(&agent, "manifests")?;
    managed.reconciled(&agent)?;
    ensure!(there(1) && there(2), "pods went with the manifest directory");
    std::fs::rename(&aside, managed.manifests()).map_err(Failure::file(&aside))?;
    managed.remove("p2")?;
    managed.settled(&agent, 1)?;
    ensure!(there(1) && !there(2), "the removed pod stayed, or the other went");
    Ok(())
}

fn deferred(context: &Context) -> Result<(), Failure> {
    let managed = Managed::new(context, Driver::Cgroupfs, 1, "")?;
    let limited = |mib: u64| {
        let limits = json!({ "limits": { "memory": format!("{mib}Mi") } });
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "p", "uid": uid(1) },
            "spec": { "containers": [{ "name": "c", "image": "nodewarden.test/none:1", "resources": limits }] },
        })
    };
    managed.write("p", &limited(256))?;
    let agent = managed.start()?;
    managed.settled(&agent, 1)?;
    let path = managed.below_root(&path(1));
    let group = Group::new(context.layout.clone(), path.clone()).child("container")?;
    let v2 = context.layout.controller("memory").is_some_and(|h| h.v2);
    let (limit, usage) = if v2 {
        ("memory.max", "memory.current")
    } else {
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
    };
    let bytes =
        |file: &str| -> Result<u64, Failure> { Ok(read(context, &path, file)?.parse().unwrap_or(u64::MAX)) };
    let worker = Worker::start(context, Some(&group), &["eat-memory", &(96 * MIB).to_string()])?;
    eventually(context.patiently(20), "the worker does not take its memory", || {
        Ok((bytes(usage)? > 90 * MIB).then_some(()))
    })?;
    let begin = a_moment_ago();
    managed.write("p", &limited(32))?;
    eventually(context.patiently(10), "the status does not tell that the limit waits", || {
        Ok(status(&agent)?.pods.iter().any(|p| p.problem.contains("waits")).then_some(()))
    })?;
    managed.reconciled(&agent)?;
    ensure_eq!(bytes(limit)?, 256 * MIB, "{limit} while more is in use");
    let quiet = std::time::Duration::from_secs(1);
    let events = agent
        .client()?
        .watch(since(begin, &["hierarchy"]))?
        .collect(quiet, 10 * quiet, |e| e.cgroup == path)?;
    let deferred =
        |d: &Option<Detail>| matches!(d, Some(Detail::Hierarchy(h)) if h.reason == "LimitDeferred");
    ensure_eq!(
        events.iter().filter(|r| deferred(&r.event.detail)).count(),
        1,
        "LimitDeferred in the journal"
    );
    let ended = worker.finish(context.patiently(5))?;
    ensure!(ended.success(), "the worker ended with {ended}");
    eventually(context.patiently(20), "the limit is not set when memory is free", || {
        Ok((bytes(limit)? == 32 * MIB).then_some(()))
    })
}

fn reserved(context: &Context) -> Result<(), Failure> {
    let kubelet = "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReserved: {memory: 1Mi}\n\
                   kubeReservedCgroup: /nodewarden-test-nowhere\n";
    let managed = Managed::new(context, Driver::Cgroupfs, 60, kubelet)?;
    let mut agent = Agent::spawn(context, managed.options())?;
    let ended = agent.wait_ready();
    ensure!(ended.is_err(), "the agent started without the cgroup");
    let log = agent.log();
    let told = "kubeReservedCgroup: /nodewarden-test-nowhere: there is no such cgroup";
    ensure!(log.contains(told), "the error is not {told:?} but: {}", log.lines().last().unwrap_or_default());
    Ok(())
}

/// `cgroupsPerQOS: false`: pods are their runtime's alone.
fn flat(context: &Context) -> Result<(), Failure> {
    let kubelet = "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n";
    let managed = Managed::new(context, Driver::Cgroupfs, 1, kubelet)?;
    managed.write("p1", &pod(1))?;
    let agent = managed.start()?;
    managed.settled(&agent, 0)?;
    managed.reconciled(&agent)?;
    let made = children(&context.layout, managed.level("kubepods").trim_end_matches("/kubepods"));
    ensure!(made.is_empty(), "made without being asked: {made:?}");
    Ok(())
}

fn read(context: &Context, path: &str, file: &str) -> Result<String, Failure> {
    let place = place(&context.layout, path, file)
        .ok_or_else(|| Failure::Unexpected(format!("no controller for {file}")))?;
    Ok(plain(&std::fs::read_to_string(&place).map_err(Failure::file(&place))?))
}
