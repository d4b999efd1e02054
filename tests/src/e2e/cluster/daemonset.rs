//! The image and the manifests of `deploy/daemonset.yaml`, which are what the chart says with its defaults:
//! nodewarden as a DaemonSet in mode observe on a real cluster, changed and removed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{ClusterFixture, condition};
use super::manifest::{WAIT, pod};
use crate::e2e::packages::image;
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{free_port, get};
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] = &[Test::new("cluster_daemonset_observes", observes).timeout(240).needs(NEEDS)];

const MANIFESTS: &str = include_str!("../../../../deploy/daemonset.yaml");
/// The port in the manifests.
const PORT: &str = "10350";
/// Paths in the manifests.
const RUNTIME: &str = "/run/containerd";
const OWN: [&str; 3] = ["/run/nodewarden", "/run/systemd", "/var/lib/nodewarden"];

/// The image starts as a DaemonSet, shows the node's pods by name and their OOM kills, is replaced when its
/// configuration changes, and is gone when it is deleted.
fn observes(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    image::import(context, fixture.containerd())?;
    let port = free_port().map_err(Failure::file("a free port"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut small = pod("small", fixture.name(), WAIT);
    small["spec"]["containers"][0]["resources"] = json!({ "limits": { "memory": "32Mi" } });
    fixture.apply(&small)?;
    fixture.wait_ready("small")?;

    for object in observing(&fixture, port, "4096")? {
        fixture.apply(&object)?;
    }
    let first = ready(&fixture, None)?;
    let page = |path: &str| get(address, path, context.patiently(10));
    let healthy = page("/healthz")?;
    ensure!(healthy.status == 200, "/healthz answers {}: {}", healthy.status, healthy.text());
    eventually(context.patiently(20), "the pod is not in /metrics/cadvisor", || {
        let text = page("/metrics/cadvisor")?.text();
        let named =
            |line: &str| line.starts_with("container_memory_usage_bytes") && line.contains("pod=\"small\"");
        Ok(text.lines().any(|line| named(line) && line.contains("container=\"main\"")).then_some(()))
    })?;
    let _killed = fixture.run(&["exec", "small", "--", "/bin/sh", "-c", "tail /dev/zero & wait"]);
    eventually(context.patiently(20), "the OOM kill is not counted for the pod", || {
        let text = page("/metrics/cadvisor")?.text();
        let counted =
            |line: &&str| line.starts_with("container_oom_events_total") && line.contains("pod=\"small\"");
        let count = |line: &str| line.split_whitespace().nth(1).and_then(|count| count.parse::<f64>().ok());
        Ok(text.lines().filter(counted).filter_map(count).any(|count| count >= 1.0).then_some(()))
    })?;

    // Another configuration: as with Helm, its checksum is an annotation of the pods.
    for object in observing(&fixture, port, "2048")? {
        fixture.apply(&object)?;
    }
    ready(&fixture, Some(&first))?;
    let shown = page("/metrics")?.text();
    ensure!(shown.contains("nodewarden_topic_state"), "/metrics of the new pod: {shown}");

    fixture.run(&["delete", "daemonset", "nodewarden"])?;
    eventually(context.patiently(60), "the DaemonSet's pod is still there", || {
        Ok(pods(&fixture)?.is_empty().then_some(()))
    })?;
    ensure!(page("/healthz").is_err(), "something still answers at {address}");
    fixture.finish()
}

/// Waits until the only pod of the DaemonSet is ready, and not the one with the uid `before`. Returns its
/// uid.
pub(super) fn ready(fixture: &ClusterFixture<'_>, before: Option<&str>) -> Result<String, Failure> {
    let mut seen = Vec::new();
    let found = eventually(fixture.context().patiently(90), "", || {
        seen = pods(fixture)?;
        let [pod] = &seen[..] else { return Ok(None) };
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let is_it = Some(uid) != before && condition(pod, "Ready") == Some("True");
        Ok(is_it.then(|| uid.to_owned()))
    });
    found.map_err(|failure| {
        let states: Vec<_> = seen.iter().map(|pod| pod["status"].to_string()).collect();
        let logs = fixture.run(&["logs", "daemonset/nodewarden", "--tail", "20"]).unwrap_or_default();
        Failure::Unexpected(format!("the DaemonSet's pod is not ready{failure}: {states:?}\n{logs}"))
    })
}

pub(super) fn pods(fixture: &ClusterFixture<'_>) -> Result<Vec<Value>, Failure> {
    let list = fixture.get(&["pods", "--selector", "app.kubernetes.io/name=nodewarden"])?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// The objects of [`MANIFESTS`] for this node, with `maxCgroups` in the configuration.
fn observing(fixture: &ClusterFixture<'_>, port: u16, max_cgroups: &str) -> Result<Vec<Value>, Failure> {
    let line = format!("      maxCgroups: {max_cgroups}\n      mode: observe\n");
    let mut objects = objects(fixture, &MANIFESTS.replace("      mode: observe\n", &line), port)?;
    for object in objects.iter_mut().filter(|object| object["kind"] == "DaemonSet") {
        object["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"] = json!(max_cgroups);
    }
    Ok(objects)
}

/// The objects of these manifests for this node, in the test's namespace: its runtime, a port that is free,
/// and directories of the test. Without those that the API server of 1.20 does not know.
pub(super) fn objects(
    fixture: &ClusterFixture<'_>,
    manifests: &str,
    port: u16,
) -> Result<Vec<Value>, Failure> {
    let socket = fixture.runtime();
    let name = socket.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let text = manifests
        .replace(PORT, &port.to_string())
        .replace(&format!("unix://{RUNTIME}/containerd.sock"), &format!("unix://{RUNTIME}/{name}"));
    let mut objects = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let mut object = Value::deserialize(document)
            .map_err(|error| Failure::Unexpected(format!("the manifests: {error}")))?;
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind == "Namespace" || kind.starts_with("ValidatingAdmissionPolicy") {
            continue;
        }
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = json!(fixture.namespace());
        }
        for subject in object["subjects"].as_array_mut().into_iter().flatten() {
            subject["namespace"] = json!(fixture.namespace());
        }
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            spec["nodeSelector"]["kubernetes.io/hostname"] = json!(fixture.name());
            spec["containers"][0]["image"] = json!(image::NAME);
            spec["containers"][0]["imagePullPolicy"] = json!("Never");
            if !has_shared_mounts()? {
                for mount in spec["containers"][0]["volumeMounts"].as_array_mut().into_iter().flatten() {
                    mount.as_object_mut().map(|mount| mount.remove("mountPropagation"));
                }
            }
            for volume in spec["volumes"].as_array_mut().into_iter().flatten() {
                if let Some(path) = volume.pointer_mut("/hostPath/path") {
                    place(fixture, path);
                }
            }
        }
        objects.push(object);
    }
    Ok(objects)
}

/// Whether mounts of this machine reach containers, as systemd sets it. Without that a runtime refuses
/// `mountPropagation`.
fn has_shared_mounts() -> Result<bool, Failure> {
    let path = "/proc/self/mountinfo";
    let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
    let root = text.lines().find(|line| line.split(' ').nth(4) == Some("/"));
    Ok(root.is_some_and(|line| line.contains(" shared:")))
}

/// Puts the test's own place for a directory of the machine.
fn place(fixture: &ClusterFixture<'_>, path: &mut Value) {
    let own = match path.as_str() {
        Some(RUNTIME) => fixture.runtime().parent().map(Path::to_owned),
        Some(text) if OWN.contains(&text) => Some(fixture.context().temp.join(text.trim_start_matches('/'))),
        _ => None,
    };
    if let Some(own) = own {
        *path = json!(own);
    }
}
