//! A Deployment spreads over three nodes; the machine of one is killed, its pods come up on the others, and
//! the node comes back clean.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BOOT_SECONDS, SECONDS, boot, pods_on, seconds_since, uid, wait_node};
use crate::e2e::cluster::fixture::{ClusterFixture, condition};
use crate::e2e::cluster::manifest::{WAIT, deployment, pod};
use crate::e2e::cluster::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::fixture::{GuestNode, NodeGone};
use crate::harness::{Context, Failure, REPORTED};
use crate::{ensure, ensure_eq};

const REPLICAS: usize = 6;
/// How long the kernel may keep what was written from the disk: `dirty_expire_centisecs` and
/// `dirty_writeback_centisecs` (30 and 5 s), and ext4's commit (5 s).
const ON_DISK: Duration = Duration::from_secs(45);
/// How soon pods are moved: a node renews its lease every 5 s, and an emulated machine may be late.
const NODE_GONE: NodeGone = NodeGone { unknown_after: 20, tolerated: 5 };

pub fn moved(context: &Context) -> Result<(), Failure> {
    let begun = Instant::now();
    let fixture = Prepared::that_moves_pods(context, NODE_GONE)?.start(NodeOptions::default())?;
    let mut guests = [boot(&fixture, "a", "")?, boot(&fixture, "b", "")?];
    for guest in &guests {
        wait_node(&fixture, guest, "True", BOOT_SECONDS)?;
    }
    println!("{REPORTED}three nodes ready: {}", seconds_since(begun));
    for guest in &guests {
        unpack_images(&fixture, guest)?;
    }
    std::thread::sleep(ON_DISK);
    let begun = Instant::now();
    fixture.apply(&settings())?;
    fixture.apply(&spread(&fixture))?;
    let first = wait_ready(&fixture)?;
    println!("{REPORTED}{REPLICAS} pods ready on three nodes: {}", seconds_since(begun));
    ensure_eq!(nodes_of(&first).len(), 3, "nodes with pods of the Deployment: {:?}", nodes_of(&first));

    let [lost, other] = &mut guests;
    let old: BTreeSet<String> = pods_on(&fixture, lost.name())?.iter().map(uid).collect();
    let what = "with a volume of each pod mounted";
    lost.wait_state(what, SECONDS, |state| {
        state.mounts.is_superset(&old) && state.cgroups.is_superset(&old)
    })?;
    lost.kill()?;
    let killed = Instant::now();
    wait_node(&fixture, lost, "Unknown", SECONDS)?;
    println!("{REPORTED}killed to Ready Unknown: {}", seconds_since(killed));
    let second = wait_moved(&fixture, lost)?;
    println!("{REPORTED}killed to {REPLICAS} pods ready elsewhere: {}", seconds_since(killed));
    ensure!(!nodes_of(&second).contains(lost.name()), "pods that are ready: {:?}", nodes_of(&second));
    ensure!(nodes_of(&second).contains(other.name()), "no pod is on the guest that runs");
    let left: BTreeSet<String> = pods_on(&fixture, lost.name())?.iter().map(uid).collect();
    ensure_eq!(left, old, "pods that only their node can end");

    comes_back(&fixture, lost, &old)?;
    fixture.finish()
}

/// Runs a pod, so that the runtime unpacks the images. containerd does not sync what it unpacks: after a
/// power loss right then the programs of an image would be empty files, and no pod could run until it was
/// removed.
fn unpack_images(fixture: &ClusterFixture<'_>, guest: &GuestNode) -> Result<(), Failure> {
    let name = format!("unpacks-{}", guest.name());
    fixture.apply(&pod(&name, guest.name(), WAIT))?;
    fixture.wait_pod(&name, "ready", SECONDS, |pod| condition(pod, "Ready") == Some("True"))?;
    fixture.run(&["delete", "pod", &name, "--wait=false"])?;
    fixture.wait_gone(&name, SECONDS)
}

/// The node is ready with the disk of before, the API's pods of before are deleted, and nothing of them is
/// left.
fn comes_back(
    fixture: &ClusterFixture<'_>,
    guest: &mut GuestNode,
    old: &BTreeSet<String>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    guest.boot()?;
    // The first report comes before the agent's first look: what the dead machine left is still there.
    let found = guest.wait_state("up", BOOT_SECONDS, |state| !state.pods().is_empty())?;
    ensure!(
        old.iter().all(|uid| found.volumes.contains(uid) && found.containers.contains(uid)),
        "the disk should have kept volumes and containers of {old:?}: {found:?}"
    );
    wait_node(fixture, guest, "True", BOOT_SECONDS)?;
    println!("{REPORTED}switched on to Ready: {}", seconds_since(begun));
    let mut left = Vec::new();
    let gone = eventually(Duration::from_secs(SECONDS), "", || {
        left = pods_on(fixture, guest.name())?;
        left.retain(|pod| old.contains(&uid(pod)));
        Ok(left.is_empty().then_some(()))
    });
    gone.map_err(|failure| {
        let (state, console) = (guest.state(), guest.console_end());
        let left: Vec<_> = left.iter().map(|pod| format!("{} {}", pod["metadata"], pod["status"])).collect();
        Failure::Unexpected(format!(
            "pods of before are still in the API{failure}: {left:#?}\nthe guest: {state:?}\n{console}"
        ))
    })?;
    guest.wait_state("without anything of the pods of before", SECONDS, |state| {
        !state.pods().keys().any(|uid| old.contains(*uid))
    })?;
    println!("{REPORTED}switched on to clean: {}", seconds_since(begun));
    fixture.apply(&pod("new", guest.name(), WAIT))?;
    let new = fixture.wait_pod("new", "ready", SECONDS, |pod| condition(pod, "Ready") == Some("True"))?;
    fixture.run(&["delete", "pod", "new", "--wait=false"])?;
    fixture.wait_gone("new", SECONDS)?;
    guest.wait_state("without anything of the new pod", SECONDS, |state| {
        !state.pods().contains_key(uid(&new).as_str())
    })?;
    Ok(())
}

fn settings() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "b" } })
}

/// The Deployment, on any node, with volumes on disk and in memory.
fn spread(fixture: &ClusterFixture<'_>) -> Value {
    let mut web = deployment("web", fixture.name(), REPLICAS as u32, WAIT);
    let spec = &mut web["spec"]["template"]["spec"];
    spec["nodeSelector"] = Value::Null;
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }]);
    spec["volumes"] = json!([
        { "name": "disk", "emptyDir": {} },
        { "name": "memory", "emptyDir": { "medium": "Memory" } },
        { "name": "settings", "configMap": { "name": "settings" } },
    ]);
    let container = &mut spec["containers"][0];
    container["resources"] = json!({ "requests": { "cpu": "10m", "memory": "8Mi" } });
    container["volumeMounts"] = json!([
        { "name": "disk", "mountPath": "/disk" },
        { "name": "memory", "mountPath": "/memory" },
        { "name": "settings", "mountPath": "/settings" },
    ]);
    web
}

/// Waits until every replica is ready, and returns them.
fn wait_ready(fixture: &ClusterFixture<'_>) -> Result<Vec<Value>, Failure> {
    wait_pods(fixture, |_| true)
}

/// Waits until so many replicas are ready on other nodes.
fn wait_moved(fixture: &ClusterFixture<'_>, lost: &GuestNode) -> Result<Vec<Value>, Failure> {
    wait_pods(fixture, |pod| pod["spec"]["nodeName"] != lost.name())
}

fn wait_pods(fixture: &ClusterFixture<'_>, counts: impl Fn(&Value) -> bool) -> Result<Vec<Value>, Failure> {
    let mut last = Vec::new();
    let found = eventually(Duration::from_secs(SECONDS), "", || {
        let list = fixture.get(&["pods", "--selector", "app=web"])?;
        last = list["items"].as_array().cloned().unwrap_or_default();
        let ready = |pod: &&Value| condition(pod, "Ready") == Some("True") && counts(pod);
        let ready: Vec<Value> = last.iter().filter(ready).cloned().collect();
        Ok((ready.len() == REPLICAS).then_some(ready))
    });
    found.map_err(|_| {
        let seen: Vec<String> =
            last.iter().map(|pod| format!("on {}: {}", pod["spec"]["nodeName"], pod["status"])).collect();
        let events = fixture.run(&["get", "events"]).unwrap_or_default();
        Failure::Unexpected(format!("not {REPLICAS} ready pods: {seen:#?}\nevents:\n{events}"))
    })
}

fn nodes_of(pods: &[Value]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned).collect()
}
