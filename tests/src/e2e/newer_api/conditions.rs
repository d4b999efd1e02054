//! Conditions of pods that came after Kubernetes 1.20.

use serde_json::json;

use super::fixture::{NODE, NewerApi, condition};
use crate::e2e::pods::NEEDS;
use crate::e2e::pods::manifest::{STAY, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("newer_api_eviction_conditions", evicted).timeout(180).needs(NEEDS)];

/// `PodReadyToStartContainers` (KEP-3085) is true with the sandbox; `DisruptionTarget` (KEP-3329) says that
/// the node has evicted the pod.
fn evicted(context: &Context) -> Result<(), Failure> {
    let mut node = NewerApi::start(context, "")?;
    node.create("victim", json!({ "containers": [shell("c", STAY, json!({}))] }));
    let up = node.wait_ready("victim")?;
    ensure_eq!(condition(&up, "PodReadyToStartContainers")["status"], json!("True"), "with a sandbox");
    ensure!(condition(&up, "DisruptionTarget").is_null(), "before the eviction: {}", up["status"]);
    let first = node.api().history("victim");
    let first = first.iter().find(|pod| pod["status"]["conditions"].is_array());
    ensure!(
        first.is_some_and(|pod| condition(pod, "PodScheduled")["status"] == "True"),
        "PodScheduled of the first status: {first:?}"
    );

    // No machine has so much available.
    node.restart_with("evictionHard: {memory.available: 99%}\n")?;
    let failed = node.wait("victim", "evicted", 60, |pod| pod["status"]["phase"] == "Failed")?;
    let disruption = condition(&failed, "DisruptionTarget");
    ensure_eq!(
        (&disruption["status"], &disruption["reason"]),
        (&json!("True"), &json!("TerminationByKubelet")),
        "DisruptionTarget"
    );
    let message = disruption["message"].as_str().unwrap_or_default();
    ensure!(message.contains("memory"), "message of DisruptionTarget: {message}");
    ensure_eq!(failed["status"]["reason"], json!("Evicted"), "reason of the pod");
    let over = node.wait("victim", "without a sandbox", 60, |pod| {
        condition(pod, "PodReadyToStartContainers")["status"] == "False"
    })?;
    ensure_eq!(condition(&over, "DisruptionTarget")["status"], json!("True"), "DisruptionTarget stays");
    let is_short = |own: &serde_json::Value| own["type"] == "MemoryPressure" && own["status"] == "True";
    // Its status is written by another task than the pod's.
    eventually(context.patiently(10), "the node has no MemoryPressure", || {
        let node = node.api().node(NODE).unwrap_or_default();
        Ok(node["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_short)).then_some(()))
    })?;
    node.remove("victim")
}
