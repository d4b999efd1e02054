//! A node whose disk is full: what the API server, the controller manager and the scheduler make of it.

use std::fs;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{ClusterFixture, condition, container_id, ensure_no_restart};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Containerd, SmallDisk};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_full_disk", full).timeout(300).needs(NEEDS)];

/// Bytes of the disk with images and layers of containers.
const DISK: u64 = 160 * MIB;
/// MiB that a pod writes: less than this remains than the threshold wants.
const WRITTEN: u64 = 120;
/// How long the condition stays after there is room again, in seconds: long enough to look at it.
const TRANSITION: u64 = 6;
/// The taint of a node with `DiskPressure`.
const TAINT: &str = "node.kubernetes.io/disk-pressure";

/// A pod fills the disk: the node shows `DiskPressure`, the controller manager taints it, the pod is evicted
/// and another one is not, new pods wait or are rejected. With room again all of that ends by itself.
fn full(context: &Context) -> Result<(), Failure> {
    let root = Containerd::root(context);
    // Dropped after the runtime.
    let disk = SmallDisk::mount(&root, &context.temp.join("disk.img"), DISK).map_err(Failure::file(&root))?;
    println!("images and layers are on {}", disk.kind());
    // Images stay: the pods need them again.
    let lines = format!(
        "evictionHard: {{memory.available: 1Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, \
         imagefs.available: 30%, imagefs.inodesFree: 0%}}\n\
         evictionPressureTransitionPeriod: {TRANSITION}s\nnodeStatusUpdateFrequency: 1s\n\
         imageMinimumGCAge: 1h\nimageGCHighThresholdPercent: 100\n"
    );
    let fixture = Prepared::new(context)?.start(NodeOptions { lines, ..NodeOptions::default() })?;
    let before = fixture.node()?;
    ensure_eq!(condition(&before, "DiskPressure"), Some("False"), "DiskPressure of an empty disk");
    let orders = context.temp.join("orders");
    fs::create_dir_all(&orders).map_err(Failure::file(&orders))?;
    let script = format!(
        "while ! test -e /orders/fill; do sleep 0.2; done; dd if=/dev/zero of=/f bs=1048576 count={WRITTEN}; "
    );
    let mut fills = pod("fills", fixture.name(), &format!("{script}{WAIT}"));
    fills["spec"]["volumes"] =
        json!([{ "name": "orders", "hostPath": { "path": orders, "type": "Directory" } }]);
    fills["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "orders", "mountPath": "/orders" }]);
    fixture.apply(&fills)?;
    fixture.apply(&pod("stays", fixture.name(), WAIT))?;
    let stays = fixture.wait_ready("stays")?;
    fixture.wait_ready("fills")?;

    let file = orders.join("fill");
    fs::write(&file, "").map_err(Failure::file(&file))?;
    let node = wait_node(&fixture, "under DiskPressure and tainted", 60, |node| {
        condition(node, "DiskPressure") == Some("True") && is_tainted(node)
    })?;
    ensure_eq!(reason(&node), "KubeletHasDiskPressure", "reason of DiskPressure");
    // The scheduler keeps the first from the node, the node the second.
    fixture.apply(&pod("waits", fixture.name(), WAIT))?;
    let mut bound = pod("bound", fixture.name(), WAIT);
    bound["spec"]["nodeName"] = json!(fixture.name());
    fixture.apply(&bound)?;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    for (name, words) in
        [("bound", "The node had condition: [DiskPressure]"), ("fills", "The node was low on resource")]
    {
        let failed = fixture.wait_pod(name, "failed", 30, failed)?;
        ensure_eq!(failed["status"]["reason"], "Evicted", "reason of {name}");
        let message = failed["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains(words), "message of {name}: {message:?}, expected {words:?}");
    }
    let waits = fixture.pod("waits")?.unwrap_or_default();
    ensure_eq!(condition(&waits, "PodScheduled"), Some("False"), "PodScheduled of the pod that waits");

    let node = wait_node(&fixture, "as before", 60, |node| {
        condition(node, "DiskPressure") == Some("False") && !is_tainted(node)
    })?;
    ensure_eq!(reason(&node), "KubeletHasNoDiskPressure", "reason of DiskPressure afterwards");
    fixture.wait_ready("waits")?;
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    ensure_eq!(container_id(&after), container_id(&stays), "container of the pod that wrote nothing");
    let events = fixture.kubectl().get(&[
        "events",
        "--namespace",
        "default",
        "--field-selector",
        &format!("involvedObject.name={}", fixture.name()),
    ])?;
    let reasons: Vec<&str> =
        events["items"].as_array().into_iter().flatten().filter_map(|own| own["reason"].as_str()).collect();
    for wanted in ["NodeHasDiskPressure", "NodeHasNoDiskPressure", "EvictionThresholdMet"] {
        ensure!(reasons.contains(&wanted), "no event {wanted} of the node: {reasons:?}");
    }
    ensure_eq!(condition(&node, "Ready"), Some("True"), "Ready of the node");
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}

fn wait_node(
    fixture: &ClusterFixture<'_>,
    what: &str,
    seconds: u64,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value, Failure> {
    let mut last = Value::Null;
    let found = eventually(fixture.context().patiently(seconds), "", || {
        last = fixture.node()?;
        Ok(wanted(&last).then(|| last.clone()))
    });
    found.map_err(|failure| {
        let (conditions, taints) = (&last["status"]["conditions"], &last["spec"]["taints"]);
        Failure::Unexpected(format!("the node is not {what}{failure}: {conditions} {taints}"))
    })
}

fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|own| own["key"] == TAINT && own["effect"] == "NoSchedule")
}

/// The reason of `DiskPressure`.
fn reason(node: &Value) -> &str {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let own = conditions.find(|own| own["type"] == "DiskPressure");
    own.and_then(|own| own["reason"].as_str()).unwrap_or_default()
}
