//! The objects of a round.

use std::path::Path;

use serde_json::{Value, json};

use super::plan::{App, Job};
use crate::e2e::cluster::manifest::{ENDS_AT_ONCE, WAIT};
use crate::fixture::BUSYBOX_IMAGE;

/// The config map that pods have as files, its key, and the name of the volume.
pub const CONFIG: &str = "settings";
pub const KEY: &str = "value";
/// A file in the directory of evidence: while it is there, no probe fails.
pub const CALM: &str = "calm";
/// The container of every pod.
pub const CONTAINER: &str = "main";
/// Where the directory of evidence is in containers.
const INSIDE: &str = "/evidence";

/// A Deployment whose containers write a line with their pod's uid at each start into the file `name`.
pub fn deployment(name: &str, node: &str, app: App, version: u64, evidence: &Path) -> Value {
    let labels = json!({ "app": name });
    let started = format!("echo \"$UID_OF_POD {CONTAINER} {version}\" >> {INSIDE}/{name}");
    let mut spec = pod_spec(node, &format!("{ENDS_AT_ONCE}{started}; {WAIT}"), evidence);
    let container = &mut spec["containers"][0];
    if app.is_probed {
        container["readinessProbe"] = probe(5, 1);
        container["livenessProbe"] = probe(15, 1);
        spec["hostNetwork"] = true.into();
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": app.replicas,
            "revisionHistoryLimit": 1,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels, "annotations": { "version": version.to_string() } }, "spec": spec },
        },
    })
}

/// The change that makes new pods of a Deployment.
pub fn new_version(name: &str, app: App, node: &str, version: u64, evidence: &Path) -> Value {
    let whole = deployment(name, node, app, version, evidence);
    json!({ "spec": { "template": whole["spec"]["template"] } })
}

/// A Job that ends as planned.
pub fn job(name: &str, node: &str, job: Job, evidence: &Path) -> Value {
    let script = format!("busybox sleep {}; exit {}", job.seconds, job.exit_code);
    let mut spec = pod_spec(node, &script, evidence);
    spec["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name },
        "spec": {
            "backoffLimit": 0,
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec },
        },
    })
}

/// The config map with this value.
pub fn config(value: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": CONFIG },
        "data": { KEY: value.to_string() },
    })
}

/// An eviction of a pod.
pub fn eviction(pod: &str) -> Value {
    json!({ "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": { "name": pod } })
}

fn pod_spec(node: &str, script: &str, evidence: &Path) -> Value {
    json!({
        "nodeSelector": { "kubernetes.io/hostname": node },
        "terminationGracePeriodSeconds": 3,
        // A node that is away for a while keeps its pods.
        "tolerations": [
            { "key": "node.kubernetes.io/not-ready", "operator": "Exists" },
            { "key": "node.kubernetes.io/unreachable", "operator": "Exists" },
        ],
        "volumes": [
            { "name": "evidence", "hostPath": { "path": evidence, "type": "Directory" } },
            { "name": CONFIG, "configMap": { "name": CONFIG } },
        ],
        "containers": [{
            "name": CONTAINER,
            "image": BUSYBOX_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", script],
            "env": [{ "name": "UID_OF_POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } } }],
            "volumeMounts": [
                { "name": "evidence", "mountPath": INSIDE },
                { "name": CONFIG, "mountPath": "/settings" },
            ],
        }],
    })
}

/// A probe that fails once in so many times, unless there is calm.
fn probe(once_in: u64, failures: u64) -> Value {
    let script = format!("test -e {INSIDE}/{CALM} || test $((RANDOM % {once_in})) -ne 0");
    json!({
        "exec": { "command": ["/bin/sh", "-c", script] },
        "periodSeconds": 1,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    })
}
