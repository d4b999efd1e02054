//! Pods outlive the agent and the container runtime, and what is not ours is left alone.

use std::fs;
use std::time::{Duration, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;
use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;

use super::NEEDS;
use super::manifest::{STAY, one, pod, shell};
use super::seen::Seen;
use super::stage::{SHORT_BACKOFF, Stage};
use crate::e2e::support::{eventually, since, was_interrupted};
use crate::fixture::{BUSYBOX_IMAGE, PodSpec};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pods_are_adopted_after_kill9", adopted).timeout(180).needs(NEEDS),
    Test::new("pods_go_on_without_containerd", without_containerd).timeout(180).needs(NEEDS),
    Test::new("pods_of_others_are_left_alone", others).timeout(120).needs(NEEDS),
];

/// What must stay the same: uid, container and how often it was started again.
fn identity(pod: &Seen) -> Result<(String, String, u64), Failure> {
    let c = pod.container("c")?;
    Ok((pod.uid().to_owned(), c.id().to_owned(), c.restarts()))
}

fn adopted(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::with(context, "", SHORT_BACKOFF)?;
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
    stage.put([
        one("steady", STAY, json!({})),
        noting("twice", &twice),
        noting("ends", &on_file),
        one("leaves", STAY, json!({})),
        one("init", STAY, json!({})),
    ])?;
    let steady = identity(&stage.up("steady")?)?;
    let restarted = stage.until("twice", "up at its third run", 30, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 2)
    })?;
    let restarted = identity(&restarted)?;
    let ends = stage.up("ends")?;
    stage.up("leaves")?;

    stage.kill_agent()?;
    // Meanwhile a container ends, a manifest goes, and one comes.
    fs::write(notes.join("end"), "").map_err(Failure::file(&notes))?;
    stage.remove("leaves")?;
    stage.put([one("comes", STAY, json!({}))])?;
    std::thread::sleep(Duration::from_secs(1));
    stage.start_agent()?;

    ensure_eq!(identity(&stage.up("steady")?)?, steady, "a pod that ran all the time");
    ensure_eq!(identity(&stage.up("twice")?)?, restarted, "a pod with restarts");
    let again = stage.until("ends", "started again", 30, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    ensure_eq!(again.uid(), ends.uid(), "uid of a pod whose container ended meanwhile");
    ensure_eq!(again.container("c")?.exit_code(), Some(4), "how it ended");
    stage.up("comes")?;
    stage.gone(&["leaves"])?;

    // At any moment of a beginning and of an end: a container may not be started twice, unless the journal says that its
    // start was under way when the agent died.
    for round in 0..context.scaled([8u64, 3]) {
        let name = format!("round{round}");
        let before = SystemTime::now();
        stage.put([noting(&name, &format!("echo x >> /notes/{name}; {STAY}"))])?;
        std::thread::sleep(Duration::from_millis(40 * round));
        stage.kill_agent()?;
        stage.start_agent()?;
        stage.up(&name)?;
        let path = notes.join(&name);
        eventually(context.patiently(5), &format!("{name} did not begin"), || {
            Ok(path.exists().then_some(()))
        })?;
        let begun = fs::read_to_string(&path).map_err(Failure::file(&path))?.lines().count();
        let cut_off = cut_off_starts(context, &mut stage, &name, before)?;
        ensure!(
            begun <= 1 + cut_off,
            "{name} began {begun} times, of which {cut_off} were cut off by the agent's end"
        );
        stage.remove(&name)?;
        std::thread::sleep(Duration::from_millis(25 * round));
        stage.kill_agent()?;
        stage.start_agent()?;
        stage.gone(&[&name])?;
    }
    ensure_eq!(identity(&stage.up("steady")?)?, steady, "a pod that ran all the time, in the end");
    stage.finish()
}

/// How often the journal says of the pod that its container's start came to nothing.
fn cut_off_starts(
    context: &Context,
    stage: &mut Stage,
    name: &str,
    begin: SystemTime,
) -> Result<usize, Failure> {
    let events = stage.agent()?.client()?.watch(since(begin, &["pod"]))?;
    let quiet = context.patiently(10);
    let told = events.collect(quiet, quiet, |event| {
        let of_pod = event.pod.as_ref().is_some_and(|pod| pod.name == name);
        of_pod && matches!(&event.detail, Some(Detail::PodNote(note)) if was_interrupted(note))
    })?;
    Ok(told.len())
}

fn without_containerd(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::with(context, "", SHORT_BACKOFF)?;
    let beats = context.temp.join("beats");
    fs::create_dir(&beats).map_err(Failure::file(&beats))?;
    let mount = json!({ "volumeMounts": [{ "name": "beats", "mountPath": "/beats" }] });
    let script = "trap 'exit 0' TERM; while echo x >> /beats/all; do sleep 0.1 & wait $!; done";
    stage.put([
        pod(
            "beats",
            json!({ "volumes": [{ "name": "beats", "hostPath": { "path": beats } }],
            "containers": [shell("c", script, mount)] }),
        ),
        one("leaves", STAY, json!({})),
    ])?;
    let before = identity(&stage.up("beats")?)?;
    stage.up("leaves")?;
    let count = || fs::read(beats.join("all")).map_or(0, |text| text.len());
    let manifests = stage.managed().manifests().to_owned();
    for round in 0..2 {
        let comes = format!("comes{round}");
        let manifest = one(&comes, STAY, json!({})).to_string();
        stage.containerd_away(|agent| {
            let begun = count();
            // A pod is wanted while nobody can make it.
            let path = manifests.join(format!("{comes}.json"));
            fs::write(&path, &manifest).map_err(Failure::file(&path))?;
            eventually(context.patiently(10), "the pod does not go on without containerd", || {
                Ok((count() > begun + 10).then_some(()))
            })?;
            let answer = agent.get("/pods")?.text();
            let pods = Seen::list(&answer)?;
            let beats = pods.iter().find(|pod| pod.name() == "beats");
            ensure!(
                beats.is_some_and(|pod| pod.phase() == "Running"),
                "without containerd /pods is {answer}"
            );
            Ok(())
        })?;
        stage.up(&comes)?;
        ensure_eq!(identity(&stage.up("beats")?)?, before, "a pod that went on without containerd");
        stage.put([one(&comes, STAY, json!({}))])?;
    }
    // A manifest that goes while containerd is away.
    stage.containerd_away(|_| {
        let path = manifests.join("leaves.json");
        fs::remove_file(&path).map_err(Failure::file(&path))?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    })?;
    stage.forget("leaves");
    stage.gone(&["leaves"])?;
    ensure_eq!(identity(&stage.up("beats")?)?, before, "a pod that went on, in the end");
    stage.finish()
}

fn others(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::with(context, "", "housekeepingSeconds: 1")?;
    stage.put([one("ours", STAY, json!({}))])?;
    let ours = stage.up("ours")?;
    let parent = stage.managed().level("strangers");
    let parent = if stage.cri().uses_systemd()? { "strangers.slice".to_owned() } else { parent };
    let spec = PodSpec { name: "theirs", namespace: "else", uid: "theirs-1", cgroup_parent: &parent };
    let mut theirs = stage.cri().run_pod(&spec, context.problems())?;
    theirs.start_container("c", BUSYBOX_IMAGE, &["/bin/sleep", "600"], 0)?;

    // One with our label that no manifest and no record knows: a dead agent's.
    let sandboxes = stage.cri().list_sandboxes()?;
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
    let orphan = stage.cri().run_sandbox(config, context.problems())?;
    let orphan_id = orphan.sandbox().to_owned();
    std::mem::forget(orphan);
    let home = stage.agent()?.state().join("pods").join(uid);
    let file = home.join("volumes/kubernetes.io~empty-dir/v/file");
    fs::create_dir_all(file.parent().unwrap_or(&home)).map_err(Failure::file(&home))?;
    fs::write(&file, "x").map_err(Failure::file(&file))?;
    // Not ours to remove: no uid of a pod is called so.
    let note = stage.agent()?.state().join("pods/README");
    fs::write(&note, "mine").map_err(Failure::file(&note))?;

    eventually(context.patiently(20), "the orphan's sandbox is still there", || {
        Ok((!stage.cri().sandboxes()?.contains(&orphan_id)).then_some(()))
    })?;
    eventually(context.patiently(20), "the orphan's volumes are still there", || {
        Ok((!home.exists()).then_some(()))
    })?;
    std::thread::sleep(Duration::from_secs(3));
    ensure!(stage.cri().sandboxes()?.iter().any(|id| id == theirs.sandbox()), "the others' sandbox is gone");
    ensure!(note.exists(), "{} is gone", note.display());
    ensure_eq!(identity(&stage.up("ours")?)?, identity(&ours)?, "our own pod");
    fs::remove_file(&note).map_err(Failure::file(&note))?;
    theirs.remove()?;
    drop(theirs);
    stage.finish()
}
