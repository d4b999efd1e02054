//! The Deployments of the soak: one for each way in which a pod asks for resources.

use serde_json::{Value, json};

use crate::e2e::cluster::manifest::{WAIT, deployment, spec};

/// How many Deployments there are.
pub const KINDS: usize = 4;

/// The name of a Deployment by its number.
pub fn name(number: usize) -> &'static str {
    ["besteffort", "burstable", "guaranteed", "limited"][number]
}

/// Whether its pods are BestEffort, so that they are made idle.
pub fn is_idle(number: usize) -> bool {
    number == 0
}

/// Whether its pods have a CPU quota that may get a burst.
pub fn has_quota(number: usize) -> bool {
    number >= 2
}

/// The Deployment of this number.
pub fn object(number: usize, node: &str, replicas: u64) -> Value {
    let mut object = deployment(name(number), node, replicas as u32, WAIT);
    let spec = &mut object["spec"]["template"]["spec"];
    spec["terminationGracePeriodSeconds"] = 1.into();
    let small = json!({ "cpu": "50m", "memory": "16Mi" });
    let resources = match number {
        0 => json!({}),
        1 => json!({ "requests": small }),
        2 => json!({ "limits": { "cpu": "200m", "memory": "64Mi" } }),
        _ => json!({ "requests": small, "limits": { "cpu": "300m", "memory": "64Mi" } }),
    };
    spec["containers"][0]["resources"] = resources.clone();
    if number == 3 {
        // Without limits of its own, so that the pod has none.
        let mut side = spec["containers"][0].clone();
        side["name"] = "side".into();
        side["resources"] = resources;
        if let Some(containers) = spec["containers"].as_array_mut() {
            containers.push(side);
        }
    }
    object
}

/// A Job of one pod that ends after some seconds.
pub fn job(name: &str, node: &str, seconds: u64) -> Value {
    let mut spec = spec(node, &format!("busybox sleep {seconds}"));
    spec["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name },
        "spec": { "backoffLimit": 0, "template": { "metadata": { "labels": { "app": "job" } }, "spec": spec } },
    })
}
