//! Dead containers, dead sandboxes and logs: the newest are kept, orphans go, and what is not the agent's stays.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;

use super::NEEDS;
use super::site::Site;
use crate::e2e::pods::manifest::{STAY, one, pod, shell};
use crate::e2e::pods::seen::Seen;
use crate::e2e::support::eventually;
use crate::fixture::{BUSYBOX_IMAGE, Cri, Pod, PodSpec};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("gc_keeps_the_newest_dead", newest_dead).timeout(120).needs(NEEDS),
    Test::new("gc_sandboxes_logs_and_strangers", orphans).timeout(120).needs(NEEDS),
];

/// Images are left alone.
const NO_IMAGES: [u64; 2] = [100, 80];
const UID: &str = "0f0f0f0f-1111-4222-8333-555555555555";

/// A pod's containers that have ended, by attempt.
fn dead(site: &Site<'_>, pod: &Seen) -> Result<BTreeSet<u32>, Failure> {
    let exited: i32 = cri::ContainerState::ContainerExited.into();
    let containers = site.stage.cri().list_containers()?;
    let of_pod = |one: &cri::Container| {
        one.labels.get("io.kubernetes.pod.uid").is_some_and(|uid| uid == pod.uid()) && one.state == exited
    };
    let attempts = containers.into_iter().filter(of_pod).filter_map(|one| one.metadata);
    Ok(attempts.map(|metadata| metadata.attempt).collect())
}

fn newest_dead(context: &Context) -> Result<(), Failure> {
    let section = "crashLoopBackOffInitialSeconds: 1\ngc: {periodSeconds: 1, maxPerPodContainer: 2}";
    let kubelet = "featureGates: {KubeletCrashLoopBackOffMax: true}\n\
                   crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n";
    let mut site = Site::new(context, NO_IMAGES, kubelet, section)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    // Fails four times, then stays.
    let script =
        format!("echo run; echo x >> /notes/runs; test `wc -l < /notes/runs` -lt 5 && exit 1; {STAY}");
    let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    let volumes = json!([{ "name": "notes", "hostPath": { "path": notes } }]);
    let container = shell("c", &script, mount);
    site.stage.put([pod("fails", json!({ "volumes": volumes, "containers": [container] }))])?;
    let seen = site.stage.until("fails", "up at its fifth run", 60, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 4)
    })?;
    let mut last = BTreeSet::new();
    let kept = eventually(context.patiently(15), "", || {
        last = dead(&site, &seen)?;
        Ok((last == BTreeSet::from([2, 3])).then_some(()))
    });
    kept.map_err(|failure| Failure::Unexpected(format!("dead attempts {last:?}, not 2 and 3{failure}")))?;
    // A log lives as long as its container.
    let folder = site.stage.log_dir(&seen).join("c");
    eventually(context.patiently(15), "logs of containers that are gone", || {
        Ok((names(&folder) == ["2.log", "3.log", "4.log"]).then_some(()))
    })
    .map_err(|failure| Failure::Unexpected(format!("{failure}: {:?}", names(&folder))))?;
    std::thread::sleep(Duration::from_secs(3));
    ensure_eq!(dead(&site, &seen)?, BTreeSet::from([2, 3]), "dead attempts, some periods later");
    let now = site.stage.up("fails")?;
    ensure_eq!(now.container("c")?.restarts(), 4, "restarts");
    ensure_eq!(now.container("c")?.exit_code(), Some(1), "how the one before ended");
    site.stage.finish()
}

fn orphans(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, NO_IMAGES, "", "gc: {periodSeconds: 1}")?;
    site.stage.put([one("steady", STAY, json!({})), one("leaves", STAY, json!({}))])?;
    let steady = site.stage.up("steady")?;
    let leaves = site.stage.up("leaves")?;
    let others = Cri::connect(site.stage.containerd().socket())?;
    let mut theirs = stranger(&site, &others)?;
    let logs = site.stage.log_dir(&steady).parent().map(Path::to_owned).unwrap_or_default();
    let strange = Logs::make(context, &logs, &site.stage.log_dir(&steady))?;

    eventually(context.patiently(20), "logs of a pod that is gone are still there", || {
        Ok((!strange.orphan.exists()).then_some(()))
    })?;
    let left = site.stage.log_dir(&leaves);
    site.stage.remove("leaves")?;
    site.stage.gone(&["leaves"])?;
    eventually(context.patiently(20), "the logs of a removed pod are still there", || {
        Ok((!left.exists()).then_some(()))
    })?;

    // The sandbox of a pod that goes on ends: there is a new one, and the old one goes with its last container.
    let old = sandboxes(&site, &steady)?;
    ensure_eq!(old.len(), 1, "sandboxes of a pod");
    let container = steady.container("c")?.id().to_owned();
    old.iter().try_for_each(|id| site.stage.cri().stop_sandbox(id))?;
    site.stage.until("steady", "up in another sandbox", 40, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != container)
    })?;
    // Unless it is gone already.
    let _gone = site.stage.cri().remove_container(&container);
    eventually(context.patiently(20), "a dead sandbox without containers is still there", || {
        let now = sandboxes(&site, &steady)?;
        Ok((now.len() == 1 && now.is_disjoint(&old)).then_some(()))
    })?;

    strange.stays()?;
    let ids: BTreeSet<_> = site.stage.cri().list_containers()?.into_iter().map(|one| one.id).collect();
    ensure!(ids.contains(&theirs.1), "a dead container of others is gone");
    ensure!(
        site.stage.cri().sandboxes()?.iter().any(|id| id == theirs.0.sandbox()),
        "the others' sandbox is gone"
    );
    theirs.0.remove()?;
    drop(theirs);
    site.stage.finish()
}

/// Ids of a pod's sandboxes.
fn sandboxes(site: &Site<'_>, pod: &Seen) -> Result<BTreeSet<String>, Failure> {
    let all = site.stage.cri().list_sandboxes()?;
    let of_pod =
        |one: &cri::PodSandbox| one.labels.get("io.kubernetes.pod.uid").is_some_and(|uid| uid == pod.uid());
    Ok(all.into_iter().filter(of_pod).map(|one| one.id).collect())
}

/// A dead container in a dead sandbox that somebody else made.
fn stranger<'s>(site: &Site<'_>, cri: &'s Cri) -> Result<(Pod<'s>, String), Failure> {
    let parent = site.stage.managed().level("strangers");
    let spec = PodSpec { name: "theirs", namespace: "else", uid: "theirs-1", cgroup_parent: &parent };
    let theirs = cri.run_pod(&spec, site.ground.context.problems())?;
    let container = theirs.start_container("c", BUSYBOX_IMAGE, &["/bin/true"], 0)?;
    cri.stop_sandbox(theirs.sandbox())?;
    Ok((theirs, container))
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What lies among the logs beside those of pods.
struct Logs {
    /// Of a pod that is gone, in the kubelet's layout; a link in it leads out.
    orphan: PathBuf,
    /// None of these may go.
    kept: Vec<PathBuf>,
}

impl Logs {
    fn make(context: &Context, logs: &Path, of_steady: &Path) -> Result<Self, Failure> {
        let write = |path: &Path| {
            fs::create_dir_all(path.parent().unwrap_or(logs)).map_err(Failure::file(path))?;
            fs::write(path, "mine\n").map_err(Failure::file(path))
        };
        let link = |to: &Path, at: &Path| symlink(to, at).map_err(Failure::file(at));
        let outside = context.temp.join("outside");
        let orphan = logs.join(format!("default_ghost_{UID}"));
        let kept = vec![
            outside.join("c/0.log"),
            logs.join("notes/c/0.log"),
            logs.join("audit.log"),
            of_steady.join("c/notes.txt"),
        ];
        kept.iter().try_for_each(|path| write(path))?;
        write(&orphan.join("c/0.log"))?;
        link(&outside.join("c"), &orphan.join("d"))?;
        // As a pod's folder, but not one.
        link(&outside, &logs.join(format!("default_linked_{UID}")))?;
        Ok(Self { orphan, kept })
    }

    fn stays(&self) -> Result<(), Failure> {
        let gone: Vec<_> = self.kept.iter().filter(|path| !path.exists()).collect();
        ensure!(gone.is_empty(), "not the agent's to remove: {gone:?}");
        Ok(())
    }
}
