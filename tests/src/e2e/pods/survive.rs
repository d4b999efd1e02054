//! Pods keep running without the agent and without the runtime, and other programs' pods are not touched.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;
use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;

use super::NEEDS;
use super::fixture::{PodFixture, SHORT_BACKOFF};
use super::listed::ListedPod;
use super::manifest::{STAY, one, pod, shell};
use crate::e2e::hierarchy::compare::place;
use crate::e2e::support::{eventually, since, was_interrupted};
use crate::fixture::{BUSYBOX_IMAGE, Containerd, PodSpec};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pods_are_adopted_after_kill9", adopted).timeout(180).needs(NEEDS),
    Test::new("pods_keep_running_without_containerd", without_containerd).timeout(180).needs(NEEDS),
    Test::new("pods_of_others_are_left_alone", others).timeout(120).needs(NEEDS),
    Test::new("pods_end_with_grace_when_cgroup_root_changes", moved).timeout(180).needs(MOVED_NEEDS),
    Test::new("pods_end_with_grace_when_cgroup_driver_changes", other_driver)
        .timeout(180)
        .needs(DRIVER_NEEDS),
    Test::new("pod_that_comes_back_keeps_its_volumes", comes_back).timeout(180).needs(NEEDS),
    Test::new("pod_starts_when_the_machine_has_grown", grown).timeout(180).needs(GROWN_NEEDS),
];

const MOVED_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

const DRIVER_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::OwnMachine,
    Capability::Systemd,
    Capability::PrivateCri,
    Capability::MemoryV2,
    Capability::Loopback,
];

/// Huge pages are the whole machine's.
const GROWN_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::OwnMachine,
];

/// Pods whose cgroup is another one with the new settings get SIGTERM and their grace period, and start again
/// in the new cgroup as the same pods. The old cgroups are removed.
fn moved(context: &Context) -> Result<(), Failure> {
    moved_by(context, "/elsewhere/kubepods/", |fixture| fixture.move_root("elsewhere").map(drop))
}

/// The same when `cgroupDriver` changes from cgroupfs to systemd, and the runtime with it.
fn other_driver(context: &Context) -> Result<(), Failure> {
    moved_by(context, "/kubepods.slice/", |fixture| fixture.use_systemd())
}

/// Pods run, the agent is killed, `change` makes the next agent have its pods in cgroups with `new` in their
/// paths.
fn moved_by(
    context: &Context,
    new: &str,
    change: impl FnOnce(&mut PodFixture<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // systemd's slices are at the top and cannot be moved, so a runtime that uses systemd is of no use here.
    let containerd = Containerd::private(context)?;
    let socket = containerd.socket().to_owned();
    let mut fixture = PodFixture::with_runtime(context, containerd, &socket, "", "")?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let volumes =
        json!([{ "name": "notes", "hostPath": { "path": notes } }, { "name": "own", "emptyDir": {} }]);
    let mounts = json!({ "volumeMounts": [
        { "name": "notes", "mountPath": "/notes" }, { "name": "own", "mountPath": "/own" }] });
    // Needs two seconds to end.
    let script = "echo begins >> /notes/all; echo x >> /own/begins; \
        trap 'sleep 2; echo ends >> /notes/all; exit 0' TERM; while true; do sleep 600 & wait $!; done";
    fixture.put([
        pod(
            "graceful",
            json!({ "terminationGracePeriodSeconds": 30, "volumes": volumes,
                    "containers": [shell("c", script, mounts)] }),
        ),
        one("plain", STAY, json!({})),
    ])?;
    let before = ["graceful", "plain"].map(|name| fixture.wait_up(name));
    let [graceful, plain] = before;
    let (graceful, plain) = (graceful?, plain?);
    let old = [fixture.cgroup(&graceful)?, fixture.cgroup(&plain)?];
    fixture.kill_agent()?;
    change(&mut fixture)?;
    fixture.start_agent()?;
    for pod in [&graceful, &plain] {
        let again = fixture.wait_until(pod.name(), "up in another cgroup", 60, |now| {
            now.is_up() && now.container("c").is_ok_and(|c| c.restarts() == 1)
        })?;
        ensure_eq!(again.uid(), pod.uid(), "uid of a pod in another cgroup");
        let path = fixture.cgroup(&again)?;
        ensure!(path.contains(new), "the pod is in {path}");
        ensure!(!old.contains(&path), "the pod is still in {path}");
    }
    let all = fs::read_to_string(notes.join("all")).map_err(Failure::file(&notes))?;
    ensure_eq!(all, "begins\nends\nbegins\n", "a container that was to end with grace");
    let own = fixture.pod_dir(&graceful)?.join("volumes/kubernetes.io~empty-dir/own/begins");
    let lines = fs::read_to_string(&own).map_err(Failure::file(&own))?.lines().count();
    ensure_eq!(lines, 2, "lines in its emptyDir");
    // The levels above them, too, which the agent made.
    let levels = |path: &String| {
        let above = Path::new(path).ancestors().take_while(|own| own.iter().any(|name| name == "kubepods"));
        above.map(|level| level.display().to_string()).collect::<Vec<_>>()
    };
    let old: Vec<String> = old.iter().flat_map(levels).collect();
    ensure!(old.iter().any(|path| path.ends_with("/kubepods")), "old cgroups {old:?}");
    eventually(context.patiently(20), "an old cgroup is still there", || {
        let exists =
            |path: &String| place(&context.layout, path, "memory.stat").is_some_and(|file| file.exists());
        Ok((!old.iter().any(exists)).then_some(()))
    })?;
    fixture.finish()
}

/// A pod whose record and manifest are gone is removed; when its manifest comes back meanwhile, it starts
/// after that, and its new volumes stay.
fn comes_back(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let volumes =
        json!([{ "name": "notes", "hostPath": { "path": notes } }, { "name": "own", "emptyDir": {} }]);
    let mounts = json!({ "volumeMounts": [
        { "name": "notes", "mountPath": "/notes" }, { "name": "own", "mountPath": "/own" }] });
    let script = "echo begins >> /notes/all; echo x >> /own/begins; \
        trap 'echo term >> /notes/all; sleep 5; echo ends >> /notes/all; exit 0' TERM; \
        while true; do sleep 600 & wait $!; done";
    let manifest = pod(
        "back",
        json!({ "terminationGracePeriodSeconds": 30, "volumes": volumes,
                "containers": [shell("c", script, mounts)] }),
    );
    fixture.put([manifest.clone()])?;
    let before = fixture.wait_up("back")?;
    let record = fixture.agent()?.state().join("records").join(format!("{}.json", before.uid()));
    let own = fixture.pod_dir(&before)?.join("volumes/kubernetes.io~empty-dir/own/begins");
    fixture.kill_agent()?;
    fs::remove_file(&record).map_err(Failure::file(&record))?;
    fixture.remove("back")?;
    fixture.start_agent()?;
    let said = || fs::read_to_string(notes.join("all")).unwrap_or_default();
    eventually(context.patiently(30), "what no pod owns is not ended", || {
        Ok(said().contains("term").then_some(()))
    })?;
    fixture.put([manifest])?;
    let id = before.container("c")?.id().to_owned();
    let again = fixture.wait_until("back", "up with another container", 60, |now| {
        now.is_up() && now.container("c").is_ok_and(|c| c.id() != id)
    })?;
    ensure_eq!(again.uid(), before.uid(), "uid of the same manifest");
    ensure_eq!(said(), "begins\nterm\nends\nbegins\n", "the old container ends before the new one starts");
    // Long enough for any part that still removes something.
    std::thread::sleep(Duration::from_secs(8));
    let lines = fs::read_to_string(&own).map_err(Failure::file(&own))?.lines().count();
    ensure_eq!(lines, 1, "lines in the new emptyDir");
    ensure_eq!(identity(&fixture.wait_up("back")?)?, identity(&again)?, "the pod that came back");
    ensure_eq!(again.container("c")?.restarts(), 0, "restarts of the pod that came back");
    fixture.finish()
}

/// A pod that waits for huge pages starts when the machine has some. They are removed again at the end.
fn grown(context: &Context) -> Result<(), Failure> {
    struct Pages(std::path::PathBuf, String);
    impl Drop for Pages {
        fn drop(&mut self) {
            let _ = fs::write(&self.0, &self.1);
        }
    }
    let path = std::path::PathBuf::from("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    let Ok(before) = fs::read_to_string(&path) else {
        return Err(Failure::Skip("the kernel has no huge pages of 2 MiB".into()));
    };
    let pages = Pages(path.clone(), before.trim().to_owned());
    let count: u64 = pages.1.parse().unwrap_or(0);
    let mut fixture = PodFixture::new(context)?;
    fixture.stop_agent();
    fixture.set_reconcile(1);
    fixture.start_agent()?;
    let wanted = format!("{}Mi", (count + 2) * 2);
    let resources = json!({ "limits": { "cpu": "50m", "memory": "16Mi", "hugepages-2Mi": wanted } });
    fixture.put([one("huge", STAY, json!({ "resources": resources }))])?;
    fixture.wait_until("huge", "waiting for huge pages", 20, |pod| {
        pod.text("/status/reason") == "OutOfhugepages-2Mi"
    })?;
    fs::write(&path, (count + 2).to_string()).map_err(Failure::file(&path))?;
    let now = fs::read_to_string(&path).map_err(Failure::file(&path))?;
    if now.trim() != (count + 2).to_string() {
        return Err(Failure::Skip(format!("the kernel gives {} huge pages only", now.trim())));
    }
    fixture.wait_up("huge")?;
    fixture.finish()?;
    drop(pages);
    Ok(())
}

/// What must not change of a pod: uid, container id and number of restarts.
fn identity(pod: &ListedPod) -> Result<(String, String, u64), Failure> {
    let c = pod.container("c")?;
    Ok((pod.uid().to_owned(), c.id().to_owned(), c.restarts()))
}

/// After kill -9 at any moment the next agent adopts running containers, restarts ended ones, and starts none
/// twice.
fn adopted(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let volumes = json!([{ "name": "notes", "hostPath": { "path": notes } }]);
    let noting = |name: &str, script: &str| {
        let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
        pod(name, json!({ "volumes": volumes, "containers": [shell("c", script, mount)] }))
    };
    let twice = format!("echo x >> /notes/twice; test `wc -l < /notes/twice` -lt 3 && exit 1; {STAY}");
    let on_file = format!(
        "echo x >> /notes/ends; test `wc -l < /notes/ends` -gt 1 && {{ {STAY}; }}; \
        while ! test -e /notes/end; do sleep 0.1; done; exit 4"
    );
    fixture.put([
        one("steady", STAY, json!({})),
        noting("twice", &twice),
        noting("ends", &on_file),
        one("leaves", STAY, json!({})),
        one("init", STAY, json!({})),
    ])?;
    let steady = identity(&fixture.wait_up("steady")?)?;
    let restarted = fixture.wait_until("twice", "up at its third run", 30, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 2)
    })?;
    let restarted = identity(&restarted)?;
    let ends = fixture.wait_up("ends")?;
    fixture.wait_up("leaves")?;

    fixture.kill_agent()?;
    // Meanwhile a container ends, a manifest is removed, and another one is added.
    fs::write(notes.join("end"), "").map_err(Failure::file(&notes))?;
    fixture.remove("leaves")?;
    fixture.put([one("comes", STAY, json!({}))])?;
    std::thread::sleep(Duration::from_secs(1));
    fixture.start_agent()?;

    ensure_eq!(identity(&fixture.wait_up("steady")?)?, steady, "a pod that ran all the time");
    ensure_eq!(identity(&fixture.wait_up("twice")?)?, restarted, "a pod with restarts");
    let again = fixture.wait_until("ends", "restarted", 30, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    ensure_eq!(again.uid(), ends.uid(), "uid of a pod whose container ended meanwhile");
    ensure_eq!(again.container("c")?.exit_code(), Some(4), "exit code of the container that ended meanwhile");
    fixture.wait_up("comes")?;
    fixture.wait_gone(&["leaves"])?;

    // Kills at any moment of a pod's start and end: a container must not be started twice, unless the journal
    // says that its start was in progress when the agent died.
    for round in 0..context.scaled([8u64, 3]) {
        let name = format!("round{round}");
        let before = SystemTime::now();
        fixture.put([noting(&name, &format!("echo x >> /notes/{name}; {STAY}"))])?;
        std::thread::sleep(Duration::from_millis(40 * round));
        fixture.kill_agent()?;
        fixture.start_agent()?;
        fixture.wait_up(&name)?;
        let path = notes.join(&name);
        eventually(context.patiently(5), &format!("{name} did not start"), || {
            Ok(path.exists().then_some(()))
        })?;
        let begun = fs::read_to_string(&path).map_err(Failure::file(&path))?.lines().count();
        let interrupted = interrupted_starts(context, &mut fixture, &name, before)?;
        ensure!(
            begun <= 1 + interrupted,
            "{name} was started {begun} times, of which {interrupted} were interrupted by the agent's end"
        );
        fixture.remove(&name)?;
        std::thread::sleep(Duration::from_millis(25 * round));
        fixture.kill_agent()?;
        fixture.start_agent()?;
        fixture.wait_gone(&[&name])?;
    }
    ensure_eq!(identity(&fixture.wait_up("steady")?)?, steady, "a pod that ran all the time, in the end");
    fixture.finish()
}

/// How many starts of the pod's container were interrupted, by the journal.
fn interrupted_starts(
    context: &Context,
    fixture: &mut PodFixture,
    name: &str,
    begin: SystemTime,
) -> Result<usize, Failure> {
    let events = fixture.agent()?.client()?.watch(since(begin, &["pod"]))?;
    let quiet = context.patiently(10);
    let notes = events.collect(quiet, quiet, |event| {
        let of_pod = event.pod.as_ref().is_some_and(|pod| pod.name == name);
        of_pod && matches!(&event.detail, Some(Detail::PodNote(note)) if was_interrupted(note))
    })?;
    Ok(notes.len())
}

/// Pods keep running and are listed while containerd is stopped; manifests added or removed meanwhile take
/// effect afterwards.
fn without_containerd(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let beats = context.temp.join("beats");
    fs::create_dir(&beats).map_err(Failure::file(&beats))?;
    let mount = json!({ "volumeMounts": [{ "name": "beats", "mountPath": "/beats" }] });
    let script = "trap 'exit 0' TERM; while echo x >> /beats/all; do sleep 0.1 & wait $!; done";
    fixture.put([
        pod(
            "beats",
            json!({ "volumes": [{ "name": "beats", "hostPath": { "path": beats } }],
            "containers": [shell("c", script, mount)] }),
        ),
        one("leaves", STAY, json!({})),
    ])?;
    let before = identity(&fixture.wait_up("beats")?)?;
    fixture.wait_up("leaves")?;
    let count = || fs::read(beats.join("all")).map_or(0, |text| text.len());
    let manifests = fixture.managed().manifests().to_owned();
    for round in 0..2 {
        let comes = format!("comes{round}");
        let manifest = one(&comes, STAY, json!({})).to_string();
        fixture.without_containerd(|agent| {
            let begun = count();
            // A manifest is added while no pod can be started.
            let path = manifests.join(format!("{comes}.json"));
            fs::write(&path, &manifest).map_err(Failure::file(&path))?;
            eventually(context.patiently(10), "the pod does not keep running without containerd", || {
                Ok((count() > begun + 10).then_some(()))
            })?;
            let answer = agent.get("/pods")?.text();
            let pods = ListedPod::list(&answer)?;
            let beats = pods.iter().find(|pod| pod.name() == "beats");
            ensure!(
                beats.is_some_and(|pod| pod.phase() == "Running"),
                "without containerd /pods is {answer}"
            );
            Ok(())
        })?;
        fixture.wait_up(&comes)?;
        ensure_eq!(
            identity(&fixture.wait_up("beats")?)?,
            before,
            "a pod that ran while containerd was stopped"
        );
        fixture.put([one(&comes, STAY, json!({}))])?;
    }
    // A manifest is removed while containerd is stopped.
    fixture.without_containerd(|_| {
        let path = manifests.join("leaves.json");
        fs::remove_file(&path).map_err(Failure::file(&path))?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    })?;
    fixture.forget("leaves");
    fixture.wait_gone(&["leaves"])?;
    ensure_eq!(identity(&fixture.wait_up("beats")?)?, before, "a pod that ran all the time, in the end");
    fixture.finish()
}

/// The agent removes orphans with its own label and leaves other programs' sandboxes and files alone.
fn others(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", "housekeepingSeconds: 1")?;
    fixture.put([one("ours", STAY, json!({}))])?;
    let ours = fixture.wait_up("ours")?;
    let parent = fixture.managed().level("others");
    let parent = if fixture.cri().uses_systemd()? { "others.slice".to_owned() } else { parent };
    let spec = PodSpec { name: "theirs", namespace: "else", uid: "theirs-1", cgroup_parent: &parent };
    let mut theirs = fixture.cri().run_pod(&spec, context.problems())?;
    theirs.start_container("c", BUSYBOX_IMAGE, &["/bin/sleep", "600"], 0)?;

    // A sandbox with nodewarden's label that has no manifest and no record: left by a dead agent.
    let sandboxes = fixture.cri().list_sandboxes()?;
    let ours_seen = sandboxes
        .iter()
        .find(|sandbox| sandbox.labels.get("io.kubernetes.pod.uid").map(String::as_str) == Some(ours.uid()));
    let Some(ours_seen) = ours_seen else {
        return Err(Failure::Unexpected(format!("no sandbox has the uid of our pod: {sandboxes:?}")));
    };
    let uid = "0f0f0f0f-1111-4222-8333-444444444444";
    let mut labels = ours_seen.labels.clone();
    labels.insert("io.kubernetes.pod.uid".into(), uid.into());
    labels.insert("io.kubernetes.pod.name".into(), "orphan".into());
    let node = cri::NamespaceMode::Node.into();
    let namespaces = cri::NamespaceOption { network: node, ..Default::default() };
    let security =
        cri::LinuxSandboxSecurityContext { namespace_options: Some(namespaces), ..Default::default() };
    let config = cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "orphan".into(),
            uid: uid.into(),
            namespace: "default".into(),
            attempt: 0,
        }),
        labels,
        annotations: ours_seen.annotations.clone(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: parent.clone(),
            security_context: Some(security),
            ..Default::default()
        }),
        ..Default::default()
    };
    let orphan = fixture.cri().run_sandbox(config, context.problems())?;
    let orphan_id = orphan.sandbox().to_owned();
    std::mem::forget(orphan);
    let pod_dir = fixture.agent()?.state().join("pods").join(uid);
    let file = pod_dir.join("volumes/kubernetes.io~empty-dir/v/file");
    fs::create_dir_all(file.parent().unwrap_or(&pod_dir)).map_err(Failure::file(&pod_dir))?;
    fs::write(&file, "x").map_err(Failure::file(&file))?;
    // Not to be removed: its name is not a pod's uid.
    let note = fixture.agent()?.state().join("pods/README");
    fs::write(&note, "mine").map_err(Failure::file(&note))?;

    eventually(context.patiently(20), "the orphan's sandbox is still there", || {
        Ok((!fixture.cri().sandboxes()?.contains(&orphan_id)).then_some(()))
    })?;
    eventually(context.patiently(20), "the orphan's volumes are still there", || {
        Ok((!pod_dir.exists()).then_some(()))
    })?;
    std::thread::sleep(Duration::from_secs(3));
    ensure!(
        fixture.cri().sandboxes()?.iter().any(|id| id == theirs.sandbox()),
        "the sandbox of another program is gone"
    );
    ensure!(note.exists(), "{} is gone", note.display());
    ensure_eq!(identity(&fixture.wait_up("ours")?)?, identity(&ours)?, "our own pod");
    fs::remove_file(&note).map_err(Failure::file(&note))?;
    theirs.remove()?;
    drop(theirs);
    fixture.finish()
}
