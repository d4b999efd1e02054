//! The file system of images and layers fills up: what nobody uses goes first, then the pod that filled it. It is a small
//! one of the test's own; everything else of the agent is on the machine's.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::site::{self, Alive, QUICK, chosen, is_evicted};
use crate::e2e::gc::site::{Site, image};
use crate::e2e::pods::manifest::{pod, shell};
use crate::e2e::support::{MIB, eventually};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("eviction_unused_images_first", images_first).timeout(150).needs(NEEDS),
    Test::new("eviction_of_who_fills_the_disk", fills).timeout(150).needs(NEEDS),
    Test::new("eviction_of_who_has_most_files", files).timeout(150).needs(NEEDS),
];

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

/// No collection for space of its own accord.
const NO_COLLECTION: [u64; 2] = [100, 80];
/// What must be available, in percent.
const LEFT: u64 = 30;

fn settings(hard: &str, more: &str) -> String {
    format!(
        "evictionHard: {{memory.available: 1Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, {hard}}}\n\
         evictionPressureTransitionPeriod: 2s\n{more}"
    )
}

fn space_alone() -> String {
    format!("imagefs.available: {LEFT}%, imagefs.inodesFree: 0%")
}

/// A pod that writes what a file called as it says into its own layer: `blocks N` MiB or `files N`.
fn writer(folder: &Path, name: &str, image: &str) -> Value {
    let script = format!(
        "trap 'exit 0' TERM; while true; do \
         if test -e /told/{name} && ! test -e /done; then read what n < /told/{name}; i=0; \
         if test $what = blocks; then dd if=/dev/zero of=/blocks bs=1048576 count=$n; \
         else while test $i -lt $n; do : > /f$i; i=$((i+1)); done; fi; : > /done; fi; \
         sleep 0.1 & wait $!; done"
    );
    let volumes = json!([{ "name": "told", "hostPath": { "path": folder, "type": "Directory" } }]);
    let mount = json!([{ "name": "told", "mountPath": "/told" }]);
    let container = shell("c", &script, json!({ "image": image, "volumeMounts": mount }));
    pod(name, json!({ "volumes": volumes, "containers": [container] }))
}

/// Where pods are told what to write.
fn folder(context: &Context) -> Result<std::path::PathBuf, Failure> {
    let folder = context.temp.join("told");
    fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    Ok(folder)
}

/// Never half of it.
fn tell(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let [temporary, file] = [format!(".{name}"), name.to_owned()].map(|name| folder.join(name));
    fs::write(&temporary, format!("{text}\n")).map_err(Failure::file(&temporary))?;
    fs::rename(&temporary, &file).map_err(Failure::file(&file))
}

fn images_first(context: &Context) -> Result<(), Failure> {
    let more = "evictionMinimumReclaim: {imagefs.available: 1%}\n";
    let mut site = Site::new(context, NO_COLLECTION, &settings(&space_alone(), more), QUICK)?;
    let next = site.import_to(0, 50.0)?;
    let pods = site.pods(&[0, 1])?;
    ensure!(next > 4, "only {next} images came to half of the disk");
    ensure!(site.ground.proxy.removals().is_empty(), "images were removed while there was room");
    let filled = site.ground.disk.fill_to("filler", 100 - LEFT + 3);
    let filler = filled.map_err(Failure::file(site.ground.disk.path()))?;
    eventually(context.patiently(30), "what is unused was not removed", || {
        Ok((site.ground.space()?.above(100 - LEFT) <= 0).then_some(()))
    })?;
    eventually(context.patiently(30), "nothing was decided", || {
        let decisions = site::decisions(site.stage.agent()?)?;
        let is_over =
            |one: &nodewarden_model::Decision| one.steps.iter().any(|step| step.what == "read again");
        Ok(decisions.iter().any(is_over).then_some(()))
    })?;
    site.all_well(&pods)?;
    let decisions = site::decisions(site.stage.agent()?)?;
    let evictions: Vec<_> = decisions.iter().filter(|one| one.kind == "eviction" && !one.would).collect();
    ensure!(evictions.iter().all(|one| chosen(one).count() == 0), "a pod had to go: {evictions:?}");
    let steps: Vec<_> = evictions.iter().flat_map(|one| &one.steps).map(|step| step.what.as_str()).collect();
    ensure!(steps.contains(&"unused images removed"), "steps: {steps:?}");
    fs::remove_file(&filler).map_err(Failure::file(&filler))?;
    site.stage.finish()
}

/// One who fills, one who wrote before him and less, and one who wrote nothing.
fn fills(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, NO_COLLECTION, &settings(&space_alone(), ""), QUICK)?;
    let told = folder(context)?;
    for n in [0, 1, 2] {
        site.import(n)?;
    }
    let names = ["quiet", "modest", "hog"];
    site.stage.put(names.map(|name| writer(&told, name, &image(0))))?;
    let all =
        names.iter().map(|name| Alive::of(&site.stage.up(name)?)).collect::<Result<Vec<_>, Failure>>()?;
    tell(&told, "modest", "blocks 8")?;
    let space = site.ground.space()?;
    // Beyond what two unused images can make up for.
    let blocks = (space.capacity * (100 - LEFT + 12) / 100).saturating_sub(space.used()) / MIB;
    tell(&told, "hog", &format!("blocks {blocks}"))?;
    let seen = site.stage.until("hog", "evicted", 40, is_evicted)?;
    fs::remove_file(told.join("hog")).map_err(Failure::file(&told))?;
    let message = seen.text("/status/message").to_owned();
    let begin = "The node was low on resource: ephemeral-storage. Threshold quantity: ";
    ensure!(message.starts_with(begin), "{message:?} does not begin with {begin:?}");
    ensure!(message.contains("Container c was using "), "{message:?}");
    judge(&site, &all, "imagefs.available")?;
    // Its layer is gone with it, also those of containers that would be kept.
    eventually(context.patiently(20), "what it wrote is still there", || {
        Ok((site.ground.space()?.above(100 - LEFT) < 0).then_some(()))
    })?;
    site.stage.up("hog")?;
    judge(&site, &all, "imagefs.available")?;
    site.stage.finish()
}

fn files(context: &Context) -> Result<(), Failure> {
    let hard = "imagefs.available: 0%, imagefs.inodesFree: 60%";
    let mut site = Site::new(context, NO_COLLECTION, &settings(hard, ""), QUICK)?;
    if !site.ground.disk.kind().starts_with("ext4") {
        return Err(Failure::Skip(format!("no small number of inodes: {}", site.ground.disk.kind())));
    }
    let told = folder(context)?;
    site.import(0)?;
    let names = ["quiet", "modest", "hog"];
    site.stage.put(names.map(|name| writer(&told, name, &image(0))))?;
    let all =
        names.iter().map(|name| Alive::of(&site.stage.up(name)?)).collect::<Result<Vec<_>, Failure>>()?;
    // Many bytes in a few files do not matter here.
    tell(&told, "quiet", "blocks 20")?;
    tell(&told, "modest", "files 300")?;
    let path = site.ground.disk.path();
    let seen = nix::sys::statvfs::statvfs(path).map_err(|error| Failure::file(path)(error.into()))?;
    let files = seen.files_available().saturating_sub(seen.files() * 50 / 100);
    tell(&told, "hog", &format!("files {files}"))?;
    let seen = site.stage.until("hog", "evicted", 60, is_evicted)?;
    fs::remove_file(told.join("hog")).map_err(Failure::file(&told))?;
    let message = seen.text("/status/message").to_owned();
    ensure!(message.starts_with("The node was low on resource: inodes. Threshold quantity: "), "{message:?}");
    judge(&site, &all, "imagefs.inodesFree")?;
    site.stage.up("hog")?;
    site.stage.finish()
}

/// The last of the pods was chosen by a decision of this signal, after the unused images were gone; nobody else noticed.
fn judge(site: &Site<'_>, all: &[Alive], signal: &str) -> Result<(), Failure> {
    let decisions = site::decisions(site.stage.agent()?)?;
    let acted: Vec<_> = decisions.iter().filter(|one| one.kind == "eviction" && !one.would).collect();
    let who: Vec<_> = acted.iter().flat_map(|one| chosen(one)).collect();
    ensure_eq!(who, ["hog"], "who was chosen");
    let decision = acted.iter().find(|one| chosen(one).count() > 0);
    let passed =
        decision.is_some_and(|one| one.signals.iter().any(|seen| seen.signal == signal && seen.passed));
    ensure!(passed, "{signal} was not passed: {decision:?}");
    for alive in all.iter().filter(|alive| alive.name != "hog") {
        ensure_eq!(&Alive::of(&site.stage.up(&alive.name)?)?, alive, "a pod that was to be left alone");
    }
    let wrongs = site.ground.proxy.violations();
    ensure!(wrongs.is_empty(), "removals of what is in use: {}", wrongs.join("; "));
    Ok(())
}
