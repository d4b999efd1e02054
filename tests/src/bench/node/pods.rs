//! The pods of the bench: on the machine's network, with a container of 2 KB that does nothing.

use serde_json::{Value, json};

use crate::fixture::PAUSE_IMAGE;

/// A pod bound to this node.
pub fn idle(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "nodeName": node,
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "main",
                "image": PAUSE_IMAGE,
                "imagePullPolicy": "Never",
                "resources": { "requests": { "cpu": "1m", "memory": "1Mi" } },
            }],
        },
    })
}

/// The same with a readiness probe of one second that asks this port of the machine for the pod's name.
pub fn probed(name: &str, node: &str, port: u16) -> Value {
    let mut pod = idle(name, node);
    pod["spec"]["containers"][0]["readinessProbe"] = json!({
        "httpGet": { "host": "127.0.0.1", "port": port, "path": format!("/{name}") },
        "periodSeconds": 1,
        "failureThreshold": 1,
        "successThreshold": 1,
    });
    pod
}
