//! Volumes on a file system with project quotas: the kernel counts what belongs to each.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use nodewarden_machine::project_quota::{ProjectUse, project_of, project_use};
use serde_json::{Value, json};

use super::fixture::{RunningPod, is_evicted};
use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::{pod, shell};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::SmallDisk;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("project_quota_counts_deleted_open_files", deleted).timeout(120).needs(super::ANYWHERE)];

/// Bytes of the file system.
const DISK: u64 = 64 * MIB;
/// MiB that a pod writes.
const WRITTEN: u64 = 3;
/// A back-off long enough to check the evicted pod before it runs again.
const SECTION: &str = "eviction: {backOffSeconds: 3}";

/// A pod that writes 3 MiB once, as soon as the file of its name in `orders` exists, into a file of its
/// volume that it has deleted: reading the directory finds nothing of it.
fn holder(orders: &Path, name: &str, size_limit: &str) -> Value {
    let script = format!(
        "trap 'exit 0' TERM; while true; do if test -e /orders/{name} && ! test -e /orders/{name}.done; then \
         exec 3> /data/f; rm /data/f; dd if=/dev/zero bs=1048576 count={WRITTEN} >&3; : > /orders/{name}.done; fi; \
         sleep 0.1 & wait $!; done"
    );
    let volumes = json!([
        { "name": "orders", "hostPath": { "path": orders, "type": "Directory" } },
        { "name": "data", "emptyDir": { "sizeLimit": size_limit } },
    ]);
    let mounts =
        json!([{ "name": "orders", "mountPath": "/orders" }, { "name": "data", "mountPath": "/data" }]);
    pod(
        name,
        json!({ "volumes": volumes, "containers": [shell("c", &script, json!({ "volumeMounts": mounts }))] }),
    )
}

/// The project of a pod's volume, and what belongs to it.
fn project(fixture: &PodFixture<'_>, pod: &ListedPod) -> Result<(u32, ProjectUse), Failure> {
    let volume = fixture.pod_dir(pod)?.join("volumes/kubernetes.io~empty-dir/data");
    let opened = File::open(&volume).map_err(Failure::file(&volume))?;
    let project = project_of(&opened).map_err(Failure::file(&volume))?;
    ensure!(project != 0, "{} has no project", volume.display());
    Ok((project, project_use(&opened, project).map_err(Failure::file(&volume))?))
}

/// Each volume has a project of its own. A pod is evicted for what the kernel counts for its volume, also if
/// no file of it is in the directory any more; a pod within its limit is not.
fn deleted(context: &Context) -> Result<(), Failure> {
    // Dropped last. The agent has its volumes in this directory.
    let state = context.temp.join("managed-state");
    let _disk = SmallDisk::with_project_quota(&state, &context.temp.join("quota.img"), DISK)
        .map_err(Failure::Skip)?;
    let orders = context.temp.join("orders");
    fs::create_dir_all(&orders).map_err(Failure::file(&orders))?;
    let mut fixture = PodFixture::with_config(context, "", SECTION)?;
    fixture.put([holder(&orders, "within", "20Mi"), holder(&orders, "over", "1Mi")])?;
    let (within, over) = (fixture.wait_up("within")?, fixture.wait_up("over")?);
    let projects = [project(&fixture, &within)?, project(&fixture, &over)?];
    for (number, used) in projects {
        ensure!(used.bytes < MIB && used.inodes <= 2, "project {number} of a new volume: {used:?}");
    }
    let numbers = projects.map(|(number, _)| number);
    ensure!(numbers[0] != numbers[1], "both volumes have project {}", numbers[0]);

    let order = |name: &str| fs::write(orders.join(name), "").map_err(Failure::file(orders.join(name)));
    order("within")?;
    let done = orders.join("within.done");
    eventually(context.patiently(20), "nothing is written", || Ok(done.exists().then_some(())))?;
    let volume = fixture.pod_dir(&within)?.join("volumes/kubernetes.io~empty-dir/data");
    let names = fs::read_dir(&volume).map_err(Failure::file(&volume))?.count();
    ensure_eq!(names, 0, "files in the directory of the volume");
    // Blocks are allocated, and so counted, when they are written back.
    eventually(context.patiently(40), "the kernel does not count the deleted file", || {
        File::open(&volume)
            .and_then(|opened| Ok(nix::unistd::syncfs(&opened)?))
            .map_err(Failure::file(&volume))?;
        Ok((project(&fixture, &within)?.1.bytes >= WRITTEN * MIB).then_some(()))
    })?;

    order("over")?;
    let seen = fixture.wait_until("over", "evicted", 60, is_evicted)?;
    let message = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ";
    ensure_eq!(seen.text("/status/message"), message, "the message of the eviction");
    let back = fixture.wait_up("over")?;
    let (number, used) = project(&fixture, &back)?;
    ensure!(used.bytes < MIB, "project {number} of the new volume: {used:?}");
    ensure_eq!(BTreeSet::from([number, numbers[0]]).len(), 2, "projects of the two volumes");
    let now = RunningPod::of(&fixture.wait_up("within")?)?;
    ensure_eq!(now, RunningPod::of(&within)?, "a pod within its limit");
    fixture.finish()
}
