//! Claims of persistent volumes.

use std::fs;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{ClusterFixture, container_id};
use super::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_persistent_volumes", volumes).timeout(300).needs(NEEDS)];

/// A local volume is mounted through its claim, over a restart of the agent too, and keeps its files when the
/// pod is gone. A claim of a volume that this node cannot mount keeps its pod waiting, with an event that
/// says so.
fn volumes(context: &Context) -> Result<(), Failure> {
    let mut fixture = ClusterFixture::start(context)?;
    let disk = context.temp.join("disk");
    fs::create_dir_all(&disk).map_err(Failure::file(&disk))?;
    let before = disk.join("before");
    fs::write(&before, "hello").map_err(Failure::file(&before))?;
    let on_node = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": [fixture.name()] },
    ] }] } });
    let local =
        Bound::new(&fixture, "local", &json!({ "local": { "path": disk }, "nodeAffinity": on_node }))?;
    let nfs = json!({ "nfs": { "server": "127.0.0.1", "path": "/nothing" } });
    let remote = Bound::new(&fixture, "remote", &nfs)?;

    fixture.apply(&claiming("writer", "local", &fixture))?;
    fixture.apply(&claiming("waiter", "remote", &fixture))?;
    let writer = fixture.wait_ready("writer")?;
    let written = disk.join("written");
    let text = eventually(context.patiently(10), "the pod writes nothing", || {
        Ok(fs::read_to_string(&written).ok().filter(|text| !text.is_empty()))
    })?;
    ensure_eq!(text, "hello", "what the pod has read and written");

    let named = format!("persistentvolumeclaim {:?}", "remote");
    eventually(context.patiently(60), "no event says why the pod waits", || {
        let events = fixture.get(&["events", "--field-selector", "reason=FailedMount"])?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let says = |event: &Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == "waiter" && message.contains(&named)
        };
        Ok(events.iter().any(says).then_some(()))
    })?;
    let waiter = fixture.pod("waiter")?.unwrap_or_default();
    ensure_eq!(waiter["status"]["phase"], "Pending", "phase of the pod that waits");

    fixture.restart_agent(|| Ok(()))?;
    fixture.wait_renewed(60)?;
    let after = fixture.wait_ready("writer")?;
    ensure_eq!(container_id(&after), container_id(&writer), "container after a restart of the agent");
    ensure_eq!(fixture.run(&["exec", "writer", "--", "cat", "/data/before"])?, "hello", "the volume's file");
    fixture.run(&["delete", "pod", "writer", "waiter", "--wait=false"])?;
    fixture.wait_gone("writer", 60)?;
    fixture.wait_gone("waiter", 60)?;
    ensure!(before.exists() && written.exists(), "the volume's files are gone with the pod");
    local.remove(&fixture)?;
    remote.remove(&fixture)?;
    fixture.finish()
}

/// A volume with a claim that is bound to it.
struct Bound {
    volume: String,
    claim: &'static str,
}

impl Bound {
    fn new(fixture: &ClusterFixture<'_>, claim: &'static str, source: &Value) -> Result<Self, Failure> {
        // Volumes have no namespace.
        let volume = format!("{}-{claim}", fixture.namespace());
        let mut spec = json!({
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": volume,
            "claimRef": { "namespace": fixture.namespace(), "name": claim },
        });
        if let (Some(spec), Some(source)) = (spec.as_object_mut(), source.as_object()) {
            spec.extend(source.clone());
        }
        let object = json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": volume }, "spec": spec });
        fixture.kubectl().apply(&object)?;
        fixture.apply(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim },
            "spec": {
                "storageClassName": volume, "volumeName": volume, "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }))?;
        Ok(Self { volume, claim })
    }

    fn remove(&self, fixture: &ClusterFixture<'_>) -> Result<(), Failure> {
        fixture.run(&["delete", "persistentvolumeclaim", self.claim, "--wait=false"])?;
        fixture.kubectl().run(&["delete", "persistentvolume", &self.volume, "--wait=false"])?;
        Ok(())
    }
}

/// A pod that copies the file `before` of the claim's volume to `written`.
fn claiming(name: &str, claim: &str, fixture: &ClusterFixture<'_>) -> Value {
    let script = format!("cp /data/before /data/written; {WAIT}");
    let mut own = pod(name, fixture.name(), &script);
    own["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    own["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    own
}
