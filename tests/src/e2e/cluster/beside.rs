//! Mode augment beside the real kubelet, with its API server and scheduler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use super::node::NodeKind;
use super::options::{NodeOptions, Prepared};
use super::written;
use crate::e2e::support::eventually;
use crate::fixture::{Agent, AgentOptions, CgroupWriters, ClusterPrograms};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_augment_beside_a_kubelet", beside).timeout(400).needs(NEEDS)];

/// The kubelet updates its QoS levels once a minute.
const KUBELETS_ROUND: Duration = Duration::from_secs(70);

/// What is written stands through a restart of the kubelet and its periodic updates, no pod is restarted, a
/// child that is killed for memory has an Event, and at the end every setting is as it was. Kubelet,
/// runtime and agent have written the files that the table names, and no others.
fn beside(context: &Context) -> Result<(), Failure> {
    if let Err(error) = ClusterPrograms::find_node_suite() {
        return Err(Failure::Skip(format!("{error} (`cargo xtask setup conformance` builds the kubelet)")));
    }
    let writers = CgroupWriters::start(&context.layout, "nodewarden").map_err(Failure::file("fanotify"))?;
    let options = NodeOptions { kind: Some(NodeKind::Kubelet), ..NodeOptions::default() };
    let mut fixture = Prepared::new(context)?.start(options)?;
    fixture.apply(&pod("idle", fixture.name(), WAIT))?;
    fixture.apply(&limited(fixture.name()))?;
    let pods = [fixture.wait_ready("idle")?, fixture.wait_ready("limited")?];
    let [idle, limited] =
        pods.each_ref().map(|pod| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
    let roots = [cgroup(&idle)?, cgroup(&limited)?];
    if !roots[0].join("cpu.idle").exists() {
        return Err(Failure::Skip("this kernel has no cpu.idle (Linux 5.15)".into()));
    }
    // What the kubelet gives a new pod late, such as its memory limit, is there by now.
    std::thread::sleep(context.patiently(5));
    let before = settings(&roots)?;

    let mut agent = Agent::start(context, &augmenting(context, &fixture))?;
    let burst = if roots[1].join("cpu.max.burst").exists() { "cpu.max.burst" } else { "cpu.cfs_burst_us" };
    let is_written = || {
        let written = settings(&roots)?;
        let changed: Vec<PathBuf> = before
            .iter()
            .filter(|(path, text)| written.get(*path) != Some(text))
            .map(|(path, _)| path.clone())
            .collect();
        let bursts = changed.iter().filter(|path| path.ends_with(burst)).count();
        let is_idle = written.get(&roots[0].join("cpu.idle")).is_some_and(|text| text == "1");
        // The kernel shows another weight for an idle cgroup.
        let expected = |path: &PathBuf| {
            path.ends_with(burst)
                || ["cpu.idle", "cpu.shares", "cpu.weight"].iter().any(|file| *path == roots[0].join(file))
        };
        let others: Vec<&PathBuf> = changed.iter().filter(|path| !expected(path)).collect();
        ensure!(others.is_empty(), "files of the kubelet were changed: {others:?}");
        Ok((is_idle && bursts == 2).then_some(()))
    };
    eventually(
        context.patiently(30),
        "cpu.idle and the bursts of pod and container are not written",
        is_written,
    )?;

    // A child is killed for memory, and its pod stays as it is.
    let begun = Instant::now();
    let _killed = fixture.run(&["exec", "limited", "--", "/bin/sh", "-c", "tail /dev/zero & wait"]);
    eventually(context.patiently(20), "there is no Event of the kill", || {
        let events = fixture.get(&["events", "--field-selector", "reason=OOMKilling"])?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let own = events.iter().find(|event| event["involvedObject"]["name"] == "limited");
        let message = own.and_then(|event| event["message"].as_str()).unwrap_or_default();
        Ok((message.contains("tail") && message.contains("memory limit of 32 MiB")).then_some(()))
    })?;
    ensure!(begun.elapsed() < context.patiently(20), "the Event came after {:?}", begun.elapsed());

    fixture.runs_by_mut().restart_kubelet()?;
    let until = Instant::now() + KUBELETS_ROUND;
    while Instant::now() < until {
        ensure!(is_written()?.is_some(), "another program has written what is ours");
        std::thread::sleep(Duration::from_secs(1));
    }
    for (name, before) in ["idle", "limited"].iter().zip(&pods) {
        let now = fixture.wait_ready(name)?;
        let of = |pod: &Value| {
            let container = &pod["status"]["containerStatuses"][0];
            json!([container["containerID"], container["restartCount"], pod["status"]["podIP"]])
        };
        ensure_eq!(of(&now), of(before), "container, restarts and address of {name}");
    }
    ensure!(!agent.log().contains("AugmentLeftAlone"), "{}", agent.log());

    agent.end(Signal::SIGTERM, context.patiently(10))?;
    let after = settings(&roots)?;
    let left: Vec<_> = before.iter().filter(|(path, text)| after.get(*path) != Some(text)).collect();
    ensure!(left.is_empty(), "settings that were not put back: {left:?}");
    let files = writers.files();
    let has =
        |own: bool| files.values().any(|writers| if own { writers.own } else { writers.other.is_some() });
    ensure!(has(true) && has(false), "the kernel has not reported the writes of both: {files:?}");
    let differences = written::differences(&files);
    ensure!(differences.is_empty(), "the table of who writes which file is not right: {differences:#?}");
    fixture.finish()
}

/// The agent beside the kubelet, with everything enforced.
fn augmenting(context: &Context, fixture: &ClusterFixture<'_>) -> AgentOptions {
    AgentOptions {
        runtime: Some(fixture.runtime().to_owned()),
        kubelet: format!("cgroupRoot: /{}\n", context.prefix()),
        section: "augment: {events: Enforce, protection: Off, memoryHigh: Enforce, cpuIdle: Enforce, cpuBurst: Enforce}"
            .to_owned(),
        arguments: arguments(fixture),
        ..AgentOptions::default()
    }
}

/// The flags of an agent in mode augment on this node.
pub fn arguments(fixture: &ClusterFixture<'_>) -> Vec<String> {
    let admin = fixture.cluster().admin().display().to_string();
    let arguments = ["--mode", "augment", "--hostname-override", fixture.name(), "--kubeconfig", &admin];
    arguments.map(str::to_owned).to_vec()
}

/// A pod with limits, whose first process outlives a child that is killed.
fn limited(node: &str) -> Value {
    let mut own = pod("limited", node, WAIT);
    own["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "50m", "memory": "16Mi" }, "limits": { "cpu": "500m", "memory": "32Mi" } });
    own
}

/// The directory of a pod's cgroup in the hierarchy of the CPU controller.
pub fn cgroup(uid: &str) -> Result<PathBuf, Failure> {
    fn find(directory: &Path, name: &str) -> Option<PathBuf> {
        let below = std::fs::read_dir(directory)
            .ok()?
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
        let own = below.iter().find(|path| path.ends_with(name)).cloned();
        own.or_else(|| below.iter().find_map(|path| find(path, name)))
    }
    let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"].map(Path::new);
    let name = format!("pod{uid}");
    let found = roots.into_iter().find_map(|root| find(root, &name));
    found.ok_or_else(|| Failure::Unexpected(format!("there is no cgroup {name}")))
}

/// The settings of the CPU controller, and on v2 of all, of the pods and their containers.
fn settings(roots: &[PathBuf]) -> Result<BTreeMap<PathBuf, String>, Failure> {
    let mut all = BTreeMap::new();
    for root in roots {
        let below = std::fs::read_dir(root).map_err(Failure::file(root))?.flatten().map(|entry| entry.path());
        for directory in below.filter(|path| path.is_dir()).chain([root.clone()]) {
            for entry in std::fs::read_dir(&directory).map_err(Failure::file(&directory))?.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let changes = ["stat", "events", "current", "peak", "pressure", "usage", "procs", "threads"];
                let is_setting = name.contains('.') && !changes.iter().any(|part| name.contains(part));
                if let Some(text) = is_setting.then(|| std::fs::read_to_string(entry.path()).ok()).flatten() {
                    all.insert(entry.path(), text.trim().to_owned());
                }
            }
        }
    }
    Ok(all)
}
