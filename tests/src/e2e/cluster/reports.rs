//! What the agent writes to the API server about pods: mirror pods of manifests, readiness gates, events.

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{ClusterFixture, condition, ensure_no_restart};
use super::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_mirror_pods", mirror_pods).timeout(240).needs(NEEDS),
    Test::new("cluster_readiness_gate", readiness_gate).timeout(240).needs(NEEDS),
];

/// A manifest's pod is shown at the API server, again after someone deletes it there, and no longer than the
/// manifest is there.
fn mirror_pods(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let name = format!("static-{}", fixture.name());
    let mut manifest = pod("static", fixture.name(), WAIT);
    manifest["metadata"]["namespace"] = fixture.name().into();
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("nodeSelector");
    }
    fixture.write_manifest("static", &manifest)?;
    let first = fixture.wait_ready(&name)?;
    let annotations = &first["metadata"]["annotations"];
    let hash = annotations["kubernetes.io/config.mirror"].as_str().unwrap_or_default();
    ensure!(
        !hash.is_empty() && annotations["kubernetes.io/config.hash"] == hash,
        "annotations: {annotations}"
    );
    let owner = &first["metadata"]["ownerReferences"][0];
    ensure_eq!((&owner["kind"], &owner["name"]), (&json!("Node"), &json!(fixture.name())), "owner");

    fixture.run(&["delete", "pod", &name, "--wait=false"])?;
    let again = fixture.wait_pod(&name, "made again", 30, |pod| {
        pod["metadata"]["uid"] != first["metadata"]["uid"] && condition(pod, "Ready") == Some("True")
    })?;
    ensure_no_restart(&again)?;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    ensure_eq!(container(&again), container(&first), "the container that runs");

    manifest["spec"]["containers"][0]["env"] = json!([{ "name": "CHANGED", "value": "yes" }]);
    fixture.write_manifest("static", &manifest)?;
    fixture.wait_pod(&name, "the changed one", 60, |pod| {
        pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] != hash
            && condition(pod, "Ready") == Some("True")
    })?;
    fixture.remove_manifest("static")?;
    fixture.wait_gone(&name, 30)?;
    fixture.finish()
}

/// A pod is ready when what others say of it is true too; what they said stays. Its events are a kubelet's.
fn readiness_gate(context: &Context) -> Result<(), Failure> {
    const GATE: &str = "example.com/gate";
    let fixture = ClusterFixture::start(context)?;
    let mut gated = pod("gated", fixture.name(), WAIT);
    gated["spec"]["readinessGates"] = json!([{ "conditionType": GATE }]);
    fixture.apply(&gated)?;
    let waits =
        fixture.wait_pod("gated", "running", 60, |pod| condition(pod, "ContainersReady") == Some("True"))?;
    ensure_eq!(condition(&waits, "Ready"), Some("False"), "Ready without the gate");
    for status in ["True", "False"] {
        set_condition(&fixture, "gated", GATE, status)?;
        let pod =
            fixture.wait_pod("gated", "as its gate", 10, |pod| condition(pod, "Ready") == Some(status))?;
        ensure_eq!(condition(&pod, GATE), Some(status), "the gate's condition");
        ensure_eq!(condition(&pod, "ContainersReady"), Some("True"), "ContainersReady");
    }
    let mut seen = Vec::new();
    eventually(context.patiently(10), "events are missing", || {
        let field = "involvedObject.name=gated,source=kubelet";
        let events = fixture.get(&["events", "--field-selector", field])?;
        let all = events["items"].as_array().cloned().unwrap_or_default();
        seen = all.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
        Ok(["Pulled", "Created", "Started"].iter().all(|one| seen.iter().any(|s| s == one)).then_some(()))
    })?;
    fixture.finish()
}

fn set_condition(fixture: &ClusterFixture<'_>, pod: &str, kind: &str, status: &str) -> Result<(), Failure> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/status", fixture.name());
    // A conflict is a change that the node made meanwhile.
    eventually(fixture.context().patiently(10), "the condition cannot be set", || {
        let mut object = fixture.kubectl().get(&["--namespace", fixture.name(), "pod", pod])?;
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.retain(|own| own["type"] != kind);
            conditions.push(json!({ "type": kind, "status": status }));
        }
        let arguments = ["replace", "--raw", &path, "-f", "-"];
        Ok(fixture.kubectl().run_with(&arguments, object.to_string().as_bytes()).ok().map(drop))
    })
}
