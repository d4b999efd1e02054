//! Pods for a cluster's API server.

use serde_json::{Value, json};

use crate::fixture::BUSYBOX_IMAGE;

/// A shell script's first line: it ends at once when the container is asked to end.
pub const ENDS_AT_ONCE: &str = "trap 'exit 0' TERM; ";
/// Waits in a way that a trap interrupts.
pub const WAIT: &str = "while true; do sleep 1000 & wait $!; done";

/// A pod whose only container `main` runs a shell script, on this node.
pub fn pod(name: &str, node: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": spec(node, script),
    })
}

/// A Deployment of so many such pods, with the label `app` of its name.
pub fn deployment(name: &str, node: &str, replicas: u32, script: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec(node, script) },
        },
    })
}

/// The specification of such a pod.
pub fn spec(node: &str, script: &str) -> Value {
    json!({
        "nodeSelector": { "kubernetes.io/hostname": node },
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "main",
            "image": BUSYBOX_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", format!("{ENDS_AT_ONCE}{script}")],
        }],
    })
}
