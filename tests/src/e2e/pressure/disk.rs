//! Eviction for disk space and inodes, on a small file system of the test's own for images and layers. The
//! agent's other files are on the machine's.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{self, QUICK_RESTART, RunningPod, chosen, is_evicted};
use crate::e2e::gc::fixture::{GcFixture, image};
use crate::e2e::pods::manifest::{pod, shell};
use crate::e2e::support::{MIB, eventually};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_removes_images_first", images_first).timeout(150).needs(NEEDS),
    Test::new("eviction_removes_dead_containers_first", dead_containers_first).timeout(150).needs(NEEDS),
    Test::new("eviction_of_pod_filling_the_disk", fills).timeout(150).needs(NEEDS),
    Test::new("eviction_for_disk_survives_kill9", survives_kill).timeout(150).needs(NEEDS),
    Test::new("eviction_of_pod_with_most_files", files).timeout(150).needs(NEEDS),
];

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

/// Image garbage collection never starts by itself.
const NO_COLLECTION: [u64; 2] = [100, 80];
/// Percent that must be available.
const LEFT: u64 = 30;

/// Lines of the kubelet's configuration with these hard thresholds.
fn settings(hard: &str, more: &str) -> String {
    format!(
        "evictionHard: {{memory.available: 1Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, {hard}}}\n\
         evictionPressureTransitionPeriod: 2s\n{more}"
    )
}

/// The hard threshold of space alone.
fn space_alone() -> String {
    format!("imagefs.available: {LEFT}%, imagefs.inodesFree: 0%")
}

/// A pod that writes into its own layer what the file of its name orders: `blocks N` (MiB) or `files N`.
fn writer(orders: &Path, name: &str, image: &str) -> Value {
    let script = format!(
        "trap 'exit 0' TERM; while true; do \
         if test -e /orders/{name} && ! test -e /done; then read what n < /orders/{name}; i=0; \
         if test $what = blocks; then dd if=/dev/zero of=/blocks bs=1048576 count=$n; \
         else while test $i -lt $n; do : > /f$i; i=$((i+1)); done; fi; : > /done; fi; \
         sleep 0.1 & wait $!; done"
    );
    let volumes = json!([{ "name": "orders", "hostPath": { "path": orders, "type": "Directory" } }]);
    let mount = json!([{ "name": "orders", "mountPath": "/orders" }]);
    let container = shell("c", &script, json!({ "image": image, "volumeMounts": mount }));
    pod(name, json!({ "volumes": volumes, "containers": [container] }))
}

/// The directory of the files with orders to pods.
fn orders_dir(context: &Context) -> Result<std::path::PathBuf, Failure> {
    let orders_dir = context.temp.join("orders");
    fs::create_dir_all(&orders_dir).map_err(Failure::file(&orders_dir))?;
    Ok(orders_dir)
}

/// Writes an order to a pod, atomically.
fn order(orders: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let [temporary, file] = [format!(".{name}"), name.to_owned()].map(|name| orders.join(name));
    fs::write(&temporary, format!("{text}\n")).map_err(Failure::file(&temporary))?;
    fs::rename(&temporary, &file).map_err(Failure::file(&file))
}

/// When images alone can free enough disk space, unused images are removed and no pod is evicted.
fn images_first(context: &Context) -> Result<(), Failure> {
    let more = "evictionMinimumReclaim: {imagefs.available: 1%}\n";
    let mut fixture = GcFixture::new(context, NO_COLLECTION, &settings(&space_alone(), more), QUICK_RESTART)?;
    let next = fixture.import_to(0, 50.0)?;
    let pods = fixture.start_pods(&[0, 1])?;
    ensure!(next > 4, "only {next} images filled half of the disk");
    ensure!(fixture.runtime.proxy.removals().is_empty(), "images were removed without need");
    // The agent detects the new images when it starts. They must be older than the minimum age, which counts
    // for eviction too.
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    std::thread::sleep(Duration::from_secs(2) * context.patience);
    let filled = fixture.runtime.disk.fill_to("filler", 100 - LEFT + 3);
    let filler = filled.map_err(Failure::file(fixture.runtime.disk.path()))?;
    eventually(context.patiently(30), "unused images were not removed", || {
        Ok((fixture.runtime.space()?.above(100 - LEFT) <= 0).then_some(()))
    })?;
    eventually(context.patiently(30), "there is no finished decision", || {
        let decisions = fixture::decisions(fixture.pods.agent()?)?;
        let is_over =
            |one: &nodewarden_model::Decision| one.steps.iter().any(|step| step.what == "read again");
        Ok(decisions.iter().any(is_over).then_some(()))
    })?;
    fixture.check_unharmed(&pods)?;
    let decisions = fixture::decisions(fixture.pods.agent()?)?;
    let evictions: Vec<_> = decisions.iter().filter(|one| one.kind == "eviction" && !one.would).collect();
    ensure!(evictions.iter().all(|one| chosen(one).count() == 0), "a pod was evicted: {evictions:?}");
    let steps: Vec<_> = evictions.iter().flat_map(|one| &one.steps).map(|step| step.what.as_str()).collect();
    ensure!(steps.contains(&"unused images removed"), "steps: {steps:?}");
    fs::remove_file(&filler).map_err(Failure::file(&filler))?;
    fixture.pods.finish()
}

/// When the layers of a pod that has ended can free enough disk space, they are removed and no pod is
/// evicted, although containerd frees them some time after it has removed the containers.
fn dead_containers_first(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, NO_COLLECTION, &settings(&space_alone(), ""), QUICK_RESTART)?;
    let orders = orders_dir(context)?;
    fixture.import(0)?;
    let capacity = fixture.runtime.space()?.capacity;
    let script = format!("dd if=/dev/zero of=/blocks bs=1048576 count={}", capacity / 5 / MIB);
    let mut ended =
        pod("ended", json!({ "containers": [shell("c", &script, json!({ "image": image(0) }))] }));
    ended["spec"]["restartPolicy"] = json!("Never");
    fixture.pods.put([ended, writer(&orders, "quiet", &image(0)), writer(&orders, "modest", &image(0))])?;
    fixture.pods.wait_phase("ended", "Succeeded")?;
    let alive = ["quiet", "modest"]
        .iter()
        .map(|name| RunningPod::of(&fixture.pods.wait_up(name)?))
        .collect::<Result<Vec<_>, Failure>>()?;
    order(&orders, "modest", "blocks 8")?;
    // The file system frees a file that is open when it is closed: here as late as containerd does after a
    // long garbage collection.
    let held = largest_blocks(fixture.runtime.disk.path())?;
    let filled = fixture.runtime.disk.fill_to("filler", 100 - LEFT + 5);
    let filler = filled.map_err(Failure::file(fixture.runtime.disk.path()))?;
    eventually(context.patiently(40), "the layers of the pod that has ended are still there", || {
        let found = held.metadata().map_err(Failure::file(fixture.runtime.disk.path()))?;
        Ok((found.nlink() == 0).then_some(()))
    })?;
    std::thread::sleep(Duration::from_secs(3));
    drop(held);
    eventually(context.patiently(10), "no space came free", || {
        Ok((fixture.runtime.space()?.above(100 - LEFT) <= 0).then_some(()))
    })?;
    // As long as a decision that began before that may take.
    std::thread::sleep(Duration::from_secs(2));
    let decisions = fixture::decisions(fixture.pods.agent()?)?;
    let victims: Vec<String> = decisions.iter().filter(|one| !one.would).flat_map(chosen).collect();
    ensure!(victims.is_empty(), "evicted: {victims:?}");
    let steps: Vec<_> = decisions.iter().flat_map(|one| &one.steps).map(|step| step.what.as_str()).collect();
    ensure!(steps.contains(&"dead containers removed"), "steps: {steps:?}");
    for before in alive {
        let now = RunningPod::of(&fixture.pods.wait_up(&before.name)?)?;
        ensure_eq!(now.container, before.container, "container of {}", before.name);
    }
    fs::remove_file(&filler).map_err(Failure::file(&filler))?;
    fixture.pods.finish()
}

/// The pod that fills the disk is evicted, not one that wrote less or nothing, and its space is freed.
fn fills(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, NO_COLLECTION, &settings(&space_alone(), ""), QUICK_RESTART)?;
    let orders = orders_dir(context)?;
    for n in [0, 1, 2] {
        fixture.import(n)?;
    }
    let names = ["quiet", "modest", "hog"];
    fixture.pods.put(names.map(|name| writer(&orders, name, &image(0))))?;
    let all = names
        .iter()
        .map(|name| RunningPod::of(&fixture.pods.wait_up(name)?))
        .collect::<Result<Vec<_>, Failure>>()?;
    order(&orders, "modest", "blocks 8")?;
    let space = fixture.runtime.space()?;
    // More than removing two unused images can free.
    let blocks = (space.capacity * (100 - LEFT + 12) / 100).saturating_sub(space.used()) / MIB;
    order(&orders, "hog", &format!("blocks {blocks}"))?;
    let seen = fixture.pods.wait_until("hog", "evicted", 40, is_evicted)?;
    fs::remove_file(orders.join("hog")).map_err(Failure::file(&orders))?;
    let message = seen.text("/status/message").to_owned();
    let begin = "The node was low on resource: ephemeral-storage. Threshold quantity: ";
    ensure!(message.starts_with(begin), "{message:?} does not begin with {begin:?}");
    ensure!(message.contains("Container c was using "), "{message:?}");
    check_eviction(&fixture, &all, "imagefs.available")?;
    // Its layers are removed, also those of dead containers that would otherwise be kept.
    eventually(context.patiently(20), "the files that it wrote are still there", || {
        Ok((fixture.runtime.space()?.above(100 - LEFT) < 0).then_some(()))
    })?;
    fixture.pods.wait_up("hog")?;
    check_eviction(&fixture, &all, "imagefs.available")?;
    fixture.pods.finish()
}

/// An agent that starts while a pod of the agent before ends for the disk waits until its space is free: no
/// second pod is evicted for the same shortage.
fn survives_kill(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, NO_COLLECTION, &settings(&space_alone(), ""), QUICK_RESTART)?;
    let orders = orders_dir(context)?;
    fixture.import(0)?;
    let names = ["quiet", "modest", "hog"];
    fixture.pods.put(names.map(|name| writer(&orders, name, &image(0))))?;
    let others = names[..2]
        .iter()
        .map(|name| RunningPod::of(&fixture.pods.wait_up(name)?))
        .collect::<Result<Vec<_>, Failure>>()?;
    let hog = RunningPod::of(&fixture.pods.wait_up("hog")?)?;
    order(&orders, "modest", "blocks 8")?;
    let space = fixture.runtime.space()?;
    let blocks = (space.capacity * (100 - LEFT + 12) / 100).saturating_sub(space.used()) / MIB;
    order(&orders, "hog", &format!("blocks {blocks}"))?;
    eventually(context.patiently(40), "no pod is evicted", || {
        let decisions = fixture::decisions(fixture.pods.agent()?)?;
        Ok(decisions.iter().any(|one| !one.would && chosen(one).count() > 0).then_some(()))
    })?;
    // The file system frees a file that is open when it is closed: some time after the pod has ended.
    let held = largest_blocks(fixture.runtime.disk.path())?;
    fixture.pods.kill_agent()?;
    fs::remove_file(orders.join("hog")).map_err(Failure::file(&orders))?;
    fixture.pods.start_agent()?;
    fixture.pods.wait_until("hog", "ended", 60, is_evicted)?;
    std::thread::sleep(Duration::from_secs(2));
    drop(held);
    fixture.pods.wait_until("hog", "running again", 60, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != hog.container)
    })?;
    let decisions = fixture::decisions(fixture.pods.agent()?)?;
    let victims: Vec<String> = decisions.iter().filter(|one| !one.would).flat_map(chosen).collect();
    ensure!(victims.iter().all(|name| name == "hog"), "evicted: {victims:?}");
    for before in &others {
        let now = RunningPod::of(&fixture.pods.wait_up(&before.name)?)?;
        ensure_eq!(&now.container, &before.container, "container of {}", before.name);
    }
    fixture.pods.finish()
}

/// The largest file `blocks` in containerd's snapshots, opened.
fn largest_blocks(disk: &Path) -> Result<fs::File, Failure> {
    let layers = disk.join("io.containerd.snapshotter.v1.overlayfs/snapshots");
    let files = fs::read_dir(&layers).map_err(Failure::file(&layers))?.flatten();
    let files = files.map(|entry| entry.path().join("fs/blocks"));
    let sized = files.filter_map(|path| Some((fs::metadata(&path).ok()?.len(), path)));
    let largest = sized.max();
    ensure!(largest.is_some(), "no pod has written into its layer");
    let (_, largest) = largest.unwrap_or_default();
    fs::File::open(&largest).map_err(Failure::file(&largest))
}

/// When inodes run out, the pod with most files is evicted, not the one with most bytes.
fn files(context: &Context) -> Result<(), Failure> {
    let hard = "imagefs.available: 0%, imagefs.inodesFree: 60%";
    let mut fixture = GcFixture::new(context, NO_COLLECTION, &settings(hard, ""), QUICK_RESTART)?;
    if !fixture.runtime.disk.kind().starts_with("ext4") {
        return Err(Failure::Skip(format!(
            "the file system has no small number of inodes: {}",
            fixture.runtime.disk.kind()
        )));
    }
    let orders = orders_dir(context)?;
    fixture.import(0)?;
    let names = ["quiet", "modest", "hog"];
    fixture.pods.put(names.map(|name| writer(&orders, name, &image(0))))?;
    let all = names
        .iter()
        .map(|name| RunningPod::of(&fixture.pods.wait_up(name)?))
        .collect::<Result<Vec<_>, Failure>>()?;
    // Many bytes in a few files do not matter for inodes.
    order(&orders, "quiet", "blocks 20")?;
    order(&orders, "modest", "files 300")?;
    let path = fixture.runtime.disk.path();
    let seen = nix::sys::statvfs::statvfs(path).map_err(|error| Failure::file(path)(error.into()))?;
    let files = seen.files_available().saturating_sub(seen.files() * 50 / 100);
    order(&orders, "hog", &format!("files {files}"))?;
    let seen = fixture.pods.wait_until("hog", "evicted", 60, is_evicted)?;
    fs::remove_file(orders.join("hog")).map_err(Failure::file(&orders))?;
    let message = seen.text("/status/message").to_owned();
    ensure!(message.starts_with("The node was low on resource: inodes. Threshold quantity: "), "{message:?}");
    check_eviction(&fixture, &all, "imagefs.inodesFree")?;
    fixture.pods.wait_up("hog")?;
    fixture.pods.finish()
}

/// Checks that only `hog` was evicted, for this signal, and that other pods and images in use are unharmed.
fn check_eviction(fixture: &GcFixture<'_>, all: &[RunningPod], signal: &str) -> Result<(), Failure> {
    let decisions = fixture::decisions(fixture.pods.agent()?)?;
    let acted: Vec<_> = decisions.iter().filter(|one| one.kind == "eviction" && !one.would).collect();
    let who: Vec<_> = acted.iter().flat_map(|one| chosen(one)).collect();
    ensure_eq!(who, ["hog"], "chosen pods");
    let decision = acted.iter().find(|one| chosen(one).count() > 0);
    let passed =
        decision.is_some_and(|one| one.signals.iter().any(|seen| seen.signal == signal && seen.passed));
    ensure!(passed, "the threshold of {signal} was not met: {decision:?}");
    for alive in all.iter().filter(|alive| alive.name != "hog") {
        ensure_eq!(
            &RunningPod::of(&fixture.pods.wait_up(&alive.name)?)?,
            alive,
            "a pod that must not be affected"
        );
    }
    let violations = fixture.runtime.proxy.violations();
    ensure!(violations.is_empty(), "removals of images in use: {}", violations.join("; "));
    Ok(())
}
