//! Garbage collection of dead containers, dead sandboxes and logs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;

use super::NEEDS;
use super::fixture::GcFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::{STAY, one, pod, shell};
use crate::e2e::support::eventually;
use crate::fixture::{BUSYBOX_IMAGE, Cri, Pod, PodSpec};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("gc_keeps_newest_dead_containers", newest_dead).timeout(120).needs(NEEDS),
    Test::new("gc_removes_only_own_objects", orphans).timeout(120).needs(ANYWHERE),
];

/// Without many time limits: an emulated machine is fast enough.
const ANYWHERE: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

/// Thresholds at which no image is removed.
const NO_IMAGES: [u64; 2] = [100, 80];
const UID: &str = "0f0f0f0f-1111-4222-8333-555555555555";

/// Attempt numbers of a pod's dead containers.
fn dead(fixture: &GcFixture<'_>, pod: &ListedPod) -> Result<BTreeSet<u32>, Failure> {
    let exited: i32 = cri::ContainerState::ContainerExited.into();
    let containers = fixture.pods.cri().list_containers()?;
    let of_pod = |one: &cri::Container| {
        one.labels.get("io.kubernetes.pod.uid").is_some_and(|uid| uid == pod.uid()) && one.state == exited
    };
    let attempts = containers.into_iter().filter(of_pod).filter_map(|one| one.metadata);
    Ok(attempts.map(|metadata| metadata.attempt).collect())
}

/// Of a container's dead instances the newest two are kept, and only their logs with that of the running one.
fn newest_dead(context: &Context) -> Result<(), Failure> {
    let section = "crashLoopBackOffInitialSeconds: 1\ngc: {periodSeconds: 1, maxPerPodContainer: 2}";
    let kubelet = "featureGates: {KubeletCrashLoopBackOffMax: true}\n\
                   crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n";
    let mut fixture = GcFixture::new(context, NO_IMAGES, kubelet, section)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    // Fails four times, then keeps running.
    let script =
        format!("echo run; echo x >> /notes/runs; test `wc -l < /notes/runs` -lt 5 && exit 1; {STAY}");
    let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    let volumes = json!([{ "name": "notes", "hostPath": { "path": notes } }]);
    let container = shell("c", &script, mount);
    fixture.pods.put([pod("fails", json!({ "volumes": volumes, "containers": [container] }))])?;
    let seen = fixture.pods.wait_until("fails", "up at its fifth run", 60, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 4)
    })?;
    let mut last = BTreeSet::new();
    let kept = eventually(context.patiently(15), "", || {
        last = dead(&fixture, &seen)?;
        Ok((last == BTreeSet::from([2, 3])).then_some(()))
    });
    kept.map_err(|failure| Failure::Unexpected(format!("dead attempts {last:?}, not 2 and 3{failure}")))?;
    // The log of a removed container is removed.
    let folder = fixture.pods.log_dir(&seen).join("c");
    eventually(context.patiently(15), "logs of removed containers are still there", || {
        Ok((names(&folder) == ["2.log", "3.log", "4.log"]).then_some(()))
    })
    .map_err(|failure| Failure::Unexpected(format!("{failure}: {:?}", names(&folder))))?;
    std::thread::sleep(Duration::from_secs(3));
    ensure_eq!(dead(&fixture, &seen)?, BTreeSet::from([2, 3]), "dead attempts, some periods later");
    let now = fixture.pods.wait_up("fails")?;
    ensure_eq!(now.container("c")?.restarts(), 4, "restarts");
    ensure_eq!(now.container("c")?.exit_code(), Some(1), "exit code of the previous instance");
    fixture.pods.finish()
}

/// Logs and sandboxes of removed pods are removed; other programs' files, containers and sandboxes are not.
fn orphans(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, NO_IMAGES, "", "gc: {periodSeconds: 1}")?;
    fixture.pods.put([one("steady", STAY, json!({})), one("leaves", STAY, json!({}))])?;
    let steady = fixture.pods.wait_up("steady")?;
    let leaves = fixture.pods.wait_up("leaves")?;
    let others = Cri::connect(fixture.pods.containerd().socket())?;
    let mut theirs = others_container(&fixture, &others)?;
    let logs = fixture.pods.log_dir(&steady).parent().map(Path::to_owned).unwrap_or_default();
    let log_files = LogFiles::make(context, &logs, &fixture.pods.log_dir(&steady))?;

    eventually(context.patiently(20), "logs of a pod that is gone are still there", || {
        Ok((!log_files.orphan.exists()).then_some(()))
    })?;
    let left = fixture.pods.log_dir(&leaves);
    fixture.pods.remove("leaves")?;
    fixture.pods.wait_gone(&["leaves"])?;
    eventually(context.patiently(20), "the logs of a removed pod are still there", || {
        Ok((!left.exists()).then_some(()))
    })?;

    // The sandbox of a running pod dies: the pod gets a new one, and the old one is removed with its last
    // container.
    let old = sandboxes(&fixture, &steady)?;
    ensure_eq!(old.len(), 1, "sandboxes of a pod");
    let container = steady.container("c")?.id().to_owned();
    old.iter().try_for_each(|id| fixture.pods.cri().stop_sandbox(id))?;
    fixture.pods.wait_until("steady", "up in another sandbox", 40, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.id() != container)
    })?;
    // It may be removed already.
    let _gone = fixture.pods.cri().remove_container(&container);
    eventually(context.patiently(20), "a dead sandbox without containers is still there", || {
        let now = sandboxes(&fixture, &steady)?;
        Ok((now.len() == 1 && now.is_disjoint(&old)).then_some(()))
    })?;

    log_files.check_kept()?;
    let ids: BTreeSet<_> = fixture.pods.cri().list_containers()?.into_iter().map(|one| one.id).collect();
    ensure!(ids.contains(&theirs.1), "a dead container of another program is gone");
    ensure!(
        fixture.pods.cri().sandboxes()?.iter().any(|id| id == theirs.0.sandbox()),
        "the sandbox of another program is gone"
    );
    theirs.0.remove()?;
    drop(theirs);
    fixture.pods.finish()
}

/// Ids of a pod's sandboxes.
fn sandboxes(fixture: &GcFixture<'_>, pod: &ListedPod) -> Result<BTreeSet<String>, Failure> {
    let all = fixture.pods.cri().list_sandboxes()?;
    let of_pod =
        |one: &cri::PodSandbox| one.labels.get("io.kubernetes.pod.uid").is_some_and(|uid| uid == pod.uid());
    Ok(all.into_iter().filter(of_pod).map(|one| one.id).collect())
}

/// A dead container in a dead sandbox, created by another program.
fn others_container<'s>(fixture: &GcFixture<'_>, cri: &'s Cri) -> Result<(Pod<'s>, String), Failure> {
    let parent = fixture.pods.managed().level("others");
    let spec = PodSpec { name: "theirs", namespace: "else", uid: "theirs-1", cgroup_parent: &parent };
    let theirs = cri.run_pod(&spec, fixture.runtime.context.problems())?;
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

/// Files and directories in the log directory that belong to no running pod.
struct LogFiles {
    /// Logs of a pod of this agent that does not exist any more; a link in it leads to another directory.
    orphan: PathBuf,
    /// Files that must not be removed.
    kept: Vec<PathBuf>,
}

impl LogFiles {
    /// Creates all of them.
    fn make(context: &Context, logs: &Path, of_steady: &Path) -> Result<Self, Failure> {
        let write = |path: &Path| {
            fs::create_dir_all(path.parent().unwrap_or(logs)).map_err(Failure::file(path))?;
            fs::write(path, "mine\n").map_err(Failure::file(path))
        };
        let link = |to: &Path, at: &Path| symlink(to, at).map_err(Failure::file(at));
        let outside = context.temp.join("outside");
        let orphan = logs.join(format!("default_ghost_{UID}"));
        let kept = vec![
            // Of a kubelet's pod that is gone.
            logs.join("default_others_0f0f0f0f-1111-4222-8333-666666666666/c/0.log"),
            outside.join("c/0.log"),
            logs.join("notes/c/0.log"),
            logs.join("audit.log"),
            of_steady.join("c/notes.txt"),
        ];
        kept.iter().try_for_each(|path| write(path))?;
        write(&orphan.join("c/0.log"))?;
        let owner = ".nodewarden-owner";
        fs::copy(of_steady.join(owner), orphan.join(owner)).map_err(Failure::file(&orphan.join(owner)))?;
        link(&outside.join("c"), &orphan.join("d"))?;
        // A link with the name of a pod's log directory.
        link(&outside, &logs.join(format!("default_linked_{UID}")))?;
        Ok(Self { orphan, kept })
    }

    /// Checks that every file that must not be removed is there.
    fn check_kept(&self) -> Result<(), Failure> {
        let gone: Vec<_> = self.kept.iter().filter(|path| !path.exists()).collect();
        ensure!(gone.is_empty(), "files that are not the agent's were removed: {gone:?}");
        Ok(())
    }
}
