//! Nodes that are virtual machines with systemd and cgroup v2: one loses its power and comes back, one is
//! shut down. They are started by `cargo xtask vm cluster`.

mod killed;
mod shutdown;

use std::time::{Duration, Instant};

use serde_json::Value;

use super::fixture::{ClusterFixture, condition};
use crate::e2e::support::eventually;
use crate::fixture::{GuestNode, GuestPlan};
use crate::harness::{Capability, Failure, Test};

pub const TESTS: &[Test] = &[
    Test::new("cluster_deployment_in_guests", killed::moved).timeout(900).needs(NEEDS),
    Test::new("cluster_shutdown_in_guest", shutdown::graceful).timeout(900).needs(NEEDS),
];

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::ControlPlane,
    Capability::Guests,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

/// From switching a machine on until its node is ready, in seconds: emulated machines take 20 to 60.
const BOOT_SECONDS: u64 = 300;
/// How long something may take in an emulated machine, in seconds.
const SECONDS: u64 = 180;

/// A guest that was switched on and is to be the cluster's node of this name.
fn boot(fixture: &ClusterFixture<'_>, suffix: &str, lines: &str) -> Result<GuestNode, Failure> {
    let name = format!("{}-{suffix}", fixture.name());
    let folder = fixture.context().temp.join(suffix);
    let lines = format!("nodeLeaseDurationSeconds: 20\n{lines}");
    let mut guest = GuestNode::new(GuestPlan::find()?, fixture.cluster(), &name, folder, &lines)?;
    guest.boot()?;
    Ok(guest)
}

/// Waits until the condition Ready of a node has this status. Returns its reason and message.
fn wait_node(
    fixture: &ClusterFixture<'_>,
    guest: &GuestNode,
    status: &str,
    seconds: u64,
) -> Result<(String, String), Failure> {
    let mut last = String::new();
    let found = eventually(Duration::from_secs(seconds), "", || {
        let Ok(node) = fixture.kubectl().get(&["node", guest.name()]) else { return Ok(None) };
        last = node["status"]["conditions"].to_string();
        Ok((condition(&node, "Ready") == Some(status)).then(|| reason_of_ready(&node)))
    });
    found.map_err(|_| {
        let (state, console) = (guest.state(), guest.console_end());
        Failure::Unexpected(format!(
            "Ready of node {} is not {status} within {seconds} s: {last}\nthe guest: {state:?}\n{console}",
            guest.name()
        ))
    })
}

fn reason_of_ready(node: &Value) -> (String, String) {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    let text = |key: &str| ready.and_then(|one| one[key].as_str()).unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// The pods of the namespace, by the name of their node.
fn pods_on(fixture: &ClusterFixture<'_>, node: &str) -> Result<Vec<Value>, Failure> {
    let list = fixture.get(&["pods"])?;
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    Ok(pods.into_iter().filter(|pod| pod["spec"]["nodeName"] == node).collect())
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn seconds_since(begun: Instant) -> String {
    format!("{:.0} s", begun.elapsed().as_secs_f64())
}
