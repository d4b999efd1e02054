//! What `/stats/summary` says of a pod's disks, network and processes, compared with the files and the
//! kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};

use super::NETWORK_NEEDS;
use super::fixture::PodFixture;
use super::manifest::{STAY, pod, shell};
use crate::e2e::hierarchy::compare::place;
use crate::e2e::support::{MIB, eventually};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("summary_of_a_pod", summary).timeout(180).needs(NETWORK_NEEDS)];

/// The summary's entry of the pod, and that of the node.
fn entries(fixture: &PodFixture<'_>, uid: &str, query: &str) -> Result<(Value, Value), Failure> {
    let answer = fixture.agent()?.get(&format!("/stats/summary{query}"))?;
    let text = answer.text();
    ensure_eq!(answer.status, 200, "GET /stats/summary: {text}");
    let all: Value = serde_json::from_str(&text).map_err(|e| Failure::Unexpected(format!("{e}: {text}")))?;
    let pod = all["pods"].as_array().into_iter().flatten().find(|pod| pod["podRef"]["uid"] == uid);
    let pod = pod.cloned().ok_or_else(|| Failure::Unexpected(format!("the pod is not in {text}")))?;
    Ok((pod, all["node"].clone()))
}

/// Bytes and inodes of a directory with everything in it.
fn used(path: &Path) -> Result<(u64, u64), Failure> {
    let own = fs::symlink_metadata(path).map_err(Failure::file(path))?;
    let mut sum = (own.blocks() * 512, 1);
    if own.is_dir() {
        for entry in fs::read_dir(path).map_err(Failure::file(path))? {
            let below = used(&entry.map_err(Failure::file(path))?.path())?;
            sum = (sum.0 + below.0, sum.1 + below.1);
        }
    }
    Ok(sum)
}

fn summary(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let write =
        |path: &str, mib: u64| format!("dd if=/dev/zero of={path} bs=1048576 count={mib} 2>/dev/null; ");
    let script = format!(
        "{}{}mkdir /data/folder; sleep 4000 & seq 1 20000; echo done; {STAY}",
        write("/data/five", 5),
        write("/two", 2)
    );
    let mount = json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] });
    fixture.put([pod(
        "disks",
        json!({
            "hostNetwork": false,
            "containers": [shell("c", &script, mount)],
            "volumes": [{ "name": "data", "emptyDir": {} }],
        }),
    )])?;
    let seen = fixture.wait_up("disks")?;
    fixture.log_until(&seen, "c", 0, "done\n")?;
    // Nothing is counted before it is asked for; the runtime looks at layers every 10 s.
    let mut last = Value::Null;
    let found = eventually(context.patiently(90), "", || {
        let (pod, node) = entries(&fixture, seen.uid(), "")?;
        last = pod.clone();
        let layer = pod["containers"][0]["rootfs"]["usedBytes"].as_u64().unwrap_or_default();
        let is_all = pod["ephemeral-storage"].is_object() && layer >= 2 * MIB;
        Ok(is_all.then_some((pod, node)))
    });
    let (pod, node) =
        found.map_err(|_| Failure::Unexpected(format!("the disk use of the pod is not known: {last}")))?;

    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or_default();
    let volume = fixture.pod_dir(&seen)?.join("volumes/kubernetes.io~empty-dir/data");
    let volumes = pod["volume"].as_array().cloned().unwrap_or_default();
    ensure_eq!(volumes.len(), 1, "volumes: {volumes:?}");
    ensure_eq!(volumes[0]["name"], json!("data"), "name of the volume");
    let figures = |value: &Value| (number(value, "usedBytes"), number(value, "inodesUsed"));
    ensure_eq!(figures(&volumes[0]), used(&volume)?, "the volume");
    let c = &pod["containers"][0];
    ensure_eq!(figures(&c["logs"]), used(&fixture.log_dir(&seen).join("c"))?, "logs");
    let layer = number(&c["rootfs"], "usedBytes");
    ensure!(layer < 4 * MIB, "the writable layer has {layer} bytes, and 2 MiB were written");
    let total = number(&pod["ephemeral-storage"], "usedBytes");
    let parts = layer + number(&c["logs"], "usedBytes") + number(&volumes[0], "usedBytes");
    ensure!(total >= parts && total < parts + MIB, "{total} bytes together, and {parts} in parts");
    for (name, fs) in [
        ("rootfs", &c["rootfs"]),
        ("imageFs", &node["runtime"]["imageFs"]),
        ("containerFs", &node["runtime"]["containerFs"]),
        ("ephemeral-storage", &pod["ephemeral-storage"]),
    ] {
        let (capacity, free) = (number(fs, "capacityBytes"), number(fs, "availableBytes"));
        ensure!(capacity > 0 && free > 0 && free < capacity, "{name}: {fs}");
    }

    let cgroup = fixture.container_cgroup(&seen, "c")?;
    let procs =
        place(&context.layout, &cgroup, "memory.stat").map(|path| path.with_file_name("cgroup.procs"));
    let procs = procs.ok_or_else(|| Failure::Unexpected("no controller memory".into()))?;
    let pids = fs::read_to_string(&procs).map_err(Failure::file(&procs))?;
    ensure_eq!(number(&pod["process_stats"], "process_count"), pids.lines().count() as u64, "processes");
    let pid = pids.lines().next().unwrap_or_default();
    let path = format!("/proc/{pid}/net/dev");
    let devices = fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let eth0 = devices.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
    let received = eth0.and_then(|line| line.split_whitespace().next()).and_then(|text| text.parse().ok());
    let received: u64 = received.ok_or_else(|| Failure::Unexpected(format!("no eth0 in {devices}")))?;
    let (now, _) = entries(&fixture, seen.uid(), "")?;
    let network = &now["network"];
    ensure_eq!(network["name"], json!("eth0"), "{network}");
    ensure!(number(network, "rxBytes") >= received, "{network}, and earlier {received} bytes");
    let names: Vec<_> =
        network["interfaces"].as_array().into_iter().flatten().map(|own| own["name"].clone()).collect();
    ensure_eq!(names, [json!("eth0")], "interfaces of the pod, not of the node");

    let (pod, node) = entries(&fixture, seen.uid(), "?only_cpu_and_memory=true")?;
    for key in ["network", "ephemeral-storage", "volume", "process_stats"] {
        ensure!(pod.get(key).is_none(), "{key} with only_cpu_and_memory: {pod}");
    }
    ensure!(node.get("runtime").is_none(), "runtime with only_cpu_and_memory: {node}");
    fixture.finish()
}
