//! The shortest way through a pod's life: the node is ready, a pod runs, its status is shown, and it is
//! deleted.

use std::time::{Duration, Instant};

use super::NEEDS;
use super::fixture::{ClusterFixture, condition, ensure_no_restart};
use super::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_smoke", smoke).timeout(240).needs(NEEDS)];

fn smoke(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    the_node_describes_itself(&fixture)?;
    a_pod_runs_and_is_deleted(&fixture)?;
    fixture.finish()
}

fn the_node_describes_itself(fixture: &ClusterFixture<'_>) -> Result<(), Failure> {
    let node = fixture.node()?;
    let status = &node["status"];
    for pressure in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        ensure_eq!(condition(&node, pressure), Some("False"), "condition {pressure}");
    }
    for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
        ensure!(
            status["capacity"][resource].is_string(),
            "no capacity of {resource}: {}",
            status["capacity"]
        );
        ensure!(status["allocatable"][resource].is_string(), "no allocatable {resource}");
    }
    let info = &status["nodeInfo"];
    for field in ["kernelVersion", "containerRuntimeVersion", "kubeletVersion", "osImage", "machineID"] {
        ensure!(info[field].is_string(), "no {field} in nodeInfo: {info}");
    }
    let addresses = status["addresses"].as_array().cloned().unwrap_or_default();
    for kind in ["InternalIP", "Hostname"] {
        ensure!(addresses.iter().any(|a| a["type"] == kind), "no {kind} among the addresses: {addresses:?}");
    }
    ensure_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], fixture.name(), "host name label");
    let lease = fixture.kubectl().get(&["lease", "--namespace", "kube-node-lease", fixture.name()])?;
    ensure_eq!(lease["spec"]["holderIdentity"], fixture.name(), "holder of the lease");
    Ok(())
}

fn a_pod_runs_and_is_deleted(fixture: &ClusterFixture<'_>) -> Result<(), Failure> {
    let began = Instant::now();
    fixture.apply(&pod("one", fixture.name(), &format!("echo begun; {WAIT}")))?;
    let ready = fixture.wait_ready("one")?;
    println!("{REPORTED}pod created to ready: {:.1} s", began.elapsed().as_secs_f64());
    let status = &ready["status"];
    ensure_eq!(status["phase"], "Running", "phase");
    for kind in ["Initialized", "ContainersReady", "PodScheduled"] {
        ensure_eq!(condition(&ready, kind), Some("True"), "condition {kind}");
    }
    ensure!(status["podIP"].is_string() && status["hostIP"].is_string(), "addresses: {status}");
    let container = &status["containerStatuses"][0];
    ensure!(container["state"]["running"]["startedAt"].is_string(), "state: {container}");
    ensure!(
        container["containerID"].as_str().is_some_and(|id| id.starts_with("containerd://")),
        "container id: {container}"
    );
    ensure_no_restart(&ready)?;
    collectors_find_the_log(fixture, container["containerID"].as_str().unwrap_or_default())?;

    let began = Instant::now();
    fixture.run(&["delete", "pod", "one", "--wait=false"])?;
    let deleting = fixture.pod("one")?;
    ensure!(
        deleting.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string()),
        "the pod has no time of deletion"
    );
    fixture.wait_gone("one", 30)?;
    println!("{REPORTED}pod deleted to gone: {:.1} s", began.elapsed().as_secs_f64());
    the_grace_is_kept(fixture)
}

/// A container that takes two seconds to end is given them.
fn the_grace_is_kept(fixture: &ClusterFixture<'_>) -> Result<(), Failure> {
    let mut slow = pod("slow", fixture.name(), "");
    slow["spec"]["terminationGracePeriodSeconds"] = 20.into();
    let script = "trap 'sleep 2; exit 0' TERM; while true; do sleep 1000 & wait $!; done";
    slow["spec"]["containers"][0]["command"][2] = script.into();
    fixture.apply(&slow)?;
    fixture.wait_ready("slow")?;
    let began = Instant::now();
    fixture.run(&["delete", "pod", "slow", "--wait=false"])?;
    fixture.wait_gone("slow", 30)?;
    let took = began.elapsed();
    ensure!(
        (Duration::from_millis(1900)..Duration::from_secs(15)).contains(&took),
        "a pod that needs 2 s of its 20 s of grace was gone after {took:?}"
    );
    Ok(())
}

/// A collector of logs knows a container's log by the name of its link.
fn collectors_find_the_log(fixture: &ClusterFixture<'_>, container: &str) -> Result<(), Failure> {
    if fixture.agent().is_err() {
        // A kubelet's are not in the test's directory.
        return Ok(());
    }
    let id = container.strip_prefix("containerd://").unwrap_or_default();
    let link =
        fixture.context().temp.join("containers").join(format!("one_{}_main-{id}.log", fixture.namespace()));
    eventually(fixture.context().patiently(10), "the link to the log shows nothing", || {
        let text = std::fs::read_to_string(&link).map_err(Failure::file(&link))?;
        Ok(text.contains("begun").then_some(()))
    })
}
