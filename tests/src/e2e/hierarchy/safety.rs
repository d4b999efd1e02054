//! What the agent must not do: touch foreign pods, remove a pod for an unreadable manifest, set a limit that
//! kills.

use nix::sys::signal::Signal;
use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::json;

use super::compare::{children, place, plain};
use super::fixture::{Driver, HierarchyFixture, just_before_now, status};
use super::pods::{path, pod, uid};
use crate::e2e::support::{MIB, eventually, since};
use crate::fixture::{Agent, Group, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::MemoryCgroup, Capability::CpuCgroup, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("foreign_pods_are_left_alone", foreign).needs(NEEDS),
    Test::new("unreadable_manifest_removes_no_pod", unreadable).needs(NEEDS).timeout(120),
    Test::new("memory_limit_below_usage_is_deferred", deferred).needs(NEEDS),
    Test::new("missing_reserved_cgroup_is_an_error", reserved).needs(NEEDS),
    Test::new("no_cgroups_without_cgroups_per_qos", without_cgroups_per_qos).needs(NEEDS),
];

/// A pod cgroup that the agent did not create, with a process in it, is reported as foreign, and its QoS
/// class keeps its CPU share until it is gone.
fn foreign(context: &Context) -> Result<(), Failure> {
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 1, "")?;
    let mut large = pod(1);
    // Large enough to change the weight of its QoS class.
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("700m");
    managed.write("p1", &large)?;
    let mut agent = managed.start()?;
    managed.wait_settled(&agent, 1)?;
    // The cgroups are created before the first scrape, and are counted all the same.
    let metrics = agent.get("/metrics")?.text();
    let created = "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"create\"}";
    ensure!(metrics.contains(created), "{created} is not in /metrics");
    agent.end(Signal::SIGKILL, context.patiently(20))?;
    let path = format!("{}/podstranger", managed.level("kubepods/burstable"));
    let foreign_pod =
        Group::new(context.layout.clone(), managed.level("kubepods/burstable")).child("podstranger")?;
    let worker = Worker::start(context, Some(&foreign_pod), &["sleep"])?;
    let shares = |level: &str| -> Result<String, Failure> {
        let file =
            if context.layout.controller("cpu").is_some_and(|h| h.v2) { "cpu.weight" } else { "cpu.shares" };
        read(context, &managed.level(level), file)
    };
    let before = shares("kubepods/burstable")?;
    // The foreign pod would be starved if its QoS class lost the share of the removed pod.
    managed.remove("p1")?;
    let agent = managed.start()?;
    let status = eventually(context.patiently(20), "the status does not say what is not lowered", || {
        let status = managed.wait_reconciled(&agent)?;
        let said = status.problems.iter().any(|p| p.contains("not lowered") && p.contains(&path));
        Ok((said && status.pods.is_empty() && status.removing.is_empty()).then_some(status))
    })?;
    ensure_eq!(status.foreign, [path], "foreign pods");
    ensure_eq!(shares("kubepods/burstable")?, before, "share of a QoS class with a foreign pod");
    let metrics = agent.get("/metrics")?.text();
    ensure!(
        metrics.lines().any(|line| line == "nodewarden_hierarchy_withheld_limits 1"),
        "nodewarden_hierarchy_withheld_limits is not 1"
    );
    worker.finish(context.patiently(5))?;
    foreign_pod.remove_when_empty(context.patiently(5))?;
    eventually(context.patiently(10), "the QoS class keeps its share after the foreign pod", || {
        Ok((shares("kubepods/burstable")? != before).then_some(()))
    })
}

/// An unreadable manifest or a missing manifest directory is reported and removes no pod, also under an agent
/// that never read it.
fn unreadable(context: &Context) -> Result<(), Failure> {
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 1, "fileCheckFrequency: 1s\n")?;
    managed.write("p1", &pod(1))?;
    managed.write("p2", &pod(2))?;
    let mut agent = managed.start()?;
    managed.wait_settled(&agent, 2)?;
    let present = |i: u64| -> bool {
        let path = managed.below_root(&path(i));
        place(&context.layout, &path, "memory.stat").is_some_and(|p| p.exists())
    };
    let wait_problem = |agent: &Agent, what: &str| {
        eventually(context.patiently(10), &format!("no problem that names {what}"), || {
            Ok(status(agent)?.problems.iter().any(|p| p.contains(what)).then_some(()))
        })
    };
    managed.write_text("p1", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"meta")?;
    wait_problem(&agent, "p1.json")?;
    for _ in 0..2 {
        managed.wait_reconciled(&agent)?;
        ensure!(present(1) && present(2), "a pod was removed for its half-written manifest");
        // An agent that has never read the manifest keeps the pod as well.
        agent.end(Signal::SIGKILL, context.patiently(20))?;
        agent = managed.start()?;
        wait_problem(&agent, "p1.json")?;
    }
    managed.write("p1", &pod(1))?;
    managed.wait_settled(&agent, 2)?;
    let aside = context.temp.join("aside");
    std::fs::rename(managed.manifests(), &aside).map_err(Failure::file(&aside))?;
    wait_problem(&agent, "manifests")?;
    managed.wait_reconciled(&agent)?;
    ensure!(present(1) && present(2), "pods were removed with the manifest directory");
    std::fs::rename(&aside, managed.manifests()).map_err(Failure::file(&aside))?;
    managed.remove("p2")?;
    managed.wait_settled(&agent, 1)?;
    ensure!(present(1) && !present(2), "the removed pod is still there, or the other one is gone");
    Ok(())
}

/// A memory limit below the present usage is not set but reported as deferred, and is set when the memory is
/// free.
fn deferred(context: &Context) -> Result<(), Failure> {
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 1, "")?;
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
    managed.wait_settled(&agent, 1)?;
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
    eventually(context.patiently(20), "the worker does not allocate its memory", || {
        Ok((bytes(usage)? > 90 * MIB).then_some(()))
    })?;
    let begin = just_before_now();
    managed.write("p", &limited(32))?;
    eventually(context.patiently(10), "the status does not say that the limit waits", || {
        Ok(status(&agent)?.pods.iter().any(|p| p.problem.contains("waits")).then_some(()))
    })?;
    managed.wait_reconciled(&agent)?;
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
    eventually(context.patiently(20), "the limit is not set once memory is free", || {
        Ok((bytes(limit)? == 32 * MIB).then_some(()))
    })
}

/// The agent does not start, and says why, when the cgroup of kubeReservedCgroup does not exist.
fn reserved(context: &Context) -> Result<(), Failure> {
    let kubelet = "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReserved: {memory: 1Mi}\n\
                   kubeReservedCgroup: /nodewarden-test-nowhere\n";
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 60, kubelet)?;
    let mut agent = Agent::spawn(context, managed.options())?;
    let ended = agent.wait_ready();
    ensure!(ended.is_err(), "the agent started without the cgroup");
    let log = agent.log();
    let expected = "kubeReservedCgroup: /nodewarden-test-nowhere: there is no such cgroup";
    ensure!(
        log.contains(expected),
        "the error is not {expected:?} but: {}",
        log.lines().last().unwrap_or_default()
    );
    Ok(())
}

/// With `cgroupsPerQOS: false` the agent creates no cgroup.
fn without_cgroups_per_qos(context: &Context) -> Result<(), Failure> {
    let kubelet = "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n";
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 1, kubelet)?;
    managed.write("p1", &pod(1))?;
    let agent = managed.start()?;
    managed.wait_settled(&agent, 0)?;
    managed.wait_reconciled(&agent)?;
    let created = children(&context.layout, managed.level("kubepods").trim_end_matches("/kubepods"));
    ensure!(created.is_empty(), "created though cgroupsPerQOS is false: {created:?}");
    Ok(())
}

/// The content of a cgroup's file.
fn read(context: &Context, path: &str, file: &str) -> Result<String, Failure> {
    let place = place(&context.layout, path, file)
        .ok_or_else(|| Failure::Unexpected(format!("no controller for {file}")))?;
    Ok(plain(&std::fs::read_to_string(&place).map_err(Failure::file(&place))?))
}
