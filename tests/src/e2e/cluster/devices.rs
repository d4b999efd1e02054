//! Mode augment beside the real kubelet: who has which device, accesses of a pod to another's device, and a
//! device that a container loses.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use super::node::NodeKind;
use super::options::{NodeOptions, Prepared};
use crate::e2e::devices::Twin;
use crate::e2e::pressure::fixture::metric;
use crate::e2e::support::eventually;
use crate::fixture::{Agent, AgentOptions, Behaviour, ClusterPrograms, DeviceNode, PythonPlugin};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("cluster_augment_devices_of_a_kubelet", devices).timeout(400).needs(NEEDS)];

/// A kubelet's plugins are at this path wherever its own directory is.
const PLUGINS: &str = "/var/lib/kubelet/device-plugins";
const RESOURCE: &str = "nodewarden.test/twin";
/// The files of the v1 controller stand for what systemd does to a container's rules at a daemon-reload.
const CONTROLLER: &str = "/sys/fs/cgroup/devices";

/// A directory below `/dev`, which is removed when this is dropped.
struct Nodes(PathBuf);

impl Drop for Nodes {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// The pod that has the device opens it in every mode. Another pod, which makes a node for itself and which
/// its runtime would let open it, is only reported in Audit, and is refused in Enforce. A container that
/// loses its device has an Event.
fn devices(context: &Context) -> Result<(), Failure> {
    if let Err(error) = ClusterPrograms::find_node_suite() {
        return Err(Failure::Skip(format!("{error} (`cargo xtask setup conformance` builds the kubelet)")));
    }
    if !Path::new(CONTROLLER).is_dir() {
        return Err(Failure::Skip(
            "the rules of containers are changed by the v1 devices controller here".into(),
        ));
    }
    let nodes = Nodes(PathBuf::from(format!("/dev/{}", context.prefix())));
    let twin = Twin::make(&nodes.0)?;
    let options = NodeOptions { kind: Some(NodeKind::Kubelet), ..NodeOptions::default() };
    let fixture = Prepared::new(context)?.start(options)?;
    let mut behaviour = Behaviour::new(Path::new(PLUGINS), RESOURCE, &["w0"]);
    behaviour.response.devices.push(DeviceNode {
        container_path: "/dev/given".into(),
        host_path: twin.path.clone(),
        permissions: "rw".into(),
    });
    // The plugin in Rust refuses the path that the gRPC of this kubelet names as its authority.
    PythonPlugin::probe().map_err(Failure::Skip)?;
    let folder = context.temp.join("plugin");
    fs::create_dir(&folder).map_err(Failure::file(&folder))?;
    let _plugin = PythonPlugin::start(&folder, &behaviour, &Value::Null)?;
    eventually(context.patiently(60), "the node does not offer the device", || {
        let node = fixture.node()?;
        Ok((node["status"]["allocatable"][RESOURCE] == "1").then_some(()))
    })?;
    let mut owner = pod("owner", fixture.name(), WAIT);
    owner["spec"]["containers"][0]["resources"] = json!({ "limits": { RESOURCE: "1" } });
    let make = format!("mknod /made c {} {}; {WAIT}", twin.major, twin.minor);
    fixture.apply(&owner)?;
    fixture.apply(&pod("intruder", fixture.name(), &make))?;
    let (owner, intruder) = (fixture.wait_ready("owner")?, fixture.wait_ready("intruder")?);
    let numbers = format!("c {}:{} rw", twin.major, twin.minor);
    write(&rules(&intruder)?.join("devices.allow"), &numbers)?;

    // Audit: all of it works, and is reported.
    let agent = Agent::start(context, &beside(context, &fixture, "Audit"))?;
    eventually(context.patiently(20), "it is not shown who has the device", || {
        let shown = shown(&agent, &["devices", "--output", "json"])?;
        let own = &shown["resources"][0];
        let device = &own["devices"][0];
        Ok((own["name"] == RESOURCE
            && device["id"] == "w0"
            && device["owner"]["name"] == "owner"
            && device["owner"]["container"] == "main"
            && device["nodes"] == json!([twin.path])
            && device["problem"] == "")
            .then_some(()))
    })?;
    let counted =
        |agent: &Agent, reason| metric(agent, "nodewarden_augment_incidents_total", ("reason", reason));
    eventually(context.patiently(30), "the access is not counted", || {
        ensure!(opens(&fixture, "intruder", "/made")?, "an audited pod was refused");
        Ok((counted(&agent, "DeviceWouldBeDenied").unwrap_or(0.0) > 0.0).then_some(()))
    })?;
    ensure!(opens(&fixture, "owner", "/dev/given")?, "the owner cannot open its device");
    let explained = text(&agent, &["explain", "intruder"])?;
    let device = format!("it wanted device c {}:{}, which it was not given", twin.major, twin.minor);
    ensure!(explained.contains(&device) && explained.contains("let pass (Audit)"), "{explained}");
    let explained = text(&agent, &["explain", "owner"])?;
    ensure!(explained.contains(&format!("main has {RESOURCE} w0")), "{explained}");
    ensure!(!explained.contains("it wanted device"), "{explained}");
    ensure!(events(&fixture, "DeviceDenied")?.is_empty(), "an Event of an access that was only audited");
    end(agent, context)?;

    // Enforce: the other pod is refused, and has an Event.
    let agent = Agent::start(context, &beside(context, &fixture, "Enforce"))?;
    eventually(context.patiently(30), "the intruder is not refused", || {
        Ok((!opens(&fixture, "intruder", "/made")?).then_some(()))
    })?;
    ensure!(opens(&fixture, "owner", "/dev/given")?, "the owner cannot open its device");
    eventually(context.patiently(20), "there is no Event of the access", || {
        let events = events(&fixture, "DeviceDenied")?;
        Ok(events.iter().any(|event| event["involvedObject"]["name"] == "intruder").then_some(()))
    })?;

    // The owner loses its device, as at a daemon-reload, and gets it back.
    let rules = rules(&owner)?;
    write(&rules.join("devices.deny"), &numbers)?;
    let event = eventually(context.patiently(40), "there is no Event of the loss", || {
        Ok(events(&fixture, "DeviceLost")?
            .into_iter()
            .find(|event| event["involvedObject"]["name"] == "owner"))
    })?;
    let message = event["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains(&*twin.path.to_string_lossy()) && message.contains("devices.list of its cgroup"),
        "message: {message}"
    );
    let lost = || {
        let text = agent.get("/metrics")?.text();
        Ok::<_, Failure>(text.lines().any(|line| line == "nodewarden_augment_devices_lost 1"))
    };
    ensure!(lost()?, "the metric does not count the loss");
    let problem =
        shown(&agent, &["devices", "--output", "json"])?["resources"][0]["devices"][0]["problem"].clone();
    write(&rules.join("devices.allow"), &numbers)?;
    eventually(context.patiently(20), "the device is not back", || Ok((!lost()?).then_some(())))?;
    ensure!(problem.as_str().is_some_and(|text| !text.is_empty()), "no problem is shown");

    // Nothing is refused when the agent has ended.
    end(agent, context)?;
    ensure!(opens(&fixture, "intruder", "/made")?, "the intruder is still refused");
    let ready = fixture.wait_ready("owner")?;
    let of = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    ensure_eq!(of(&ready), of(&owner), "the owner's container");
    fixture.finish()
}

/// The agent beside the kubelet, with only devices and Events.
fn beside(context: &Context, fixture: &ClusterFixture<'_>, devices: &str) -> AgentOptions {
    let admin = fixture.cluster().admin().display().to_string();
    let arguments = ["--mode", "augment", "--hostname-override", fixture.name(), "--kubeconfig", &admin];
    let socket = context.temp.join("k/root/pod-resources/kubelet.sock");
    AgentOptions {
        runtime: Some(fixture.runtime().to_owned()),
        kubelet: format!("cgroupRoot: /{}\n", context.prefix()),
        section: format!(
            "augment: {{events: Enforce, protection: Off, memoryHigh: Off, cpuIdle: Off, cpuBurst: Off, eviction: Off, \
             devices: {devices}, podResourcesSocket: {}}}",
            socket.display()
        ),
        arguments: arguments.map(str::to_owned).to_vec(),
        ..AgentOptions::default()
    }
}

fn end(mut agent: Agent, context: &Context) -> Result<(), Failure> {
    agent.end(Signal::SIGTERM, context.patiently(10))?;
    Ok(())
}

/// Whether the pod can open the node.
fn opens(fixture: &ClusterFixture<'_>, pod: &str, node: &str) -> Result<bool, Failure> {
    let script = format!("if ( : < {node} ) 2>/tmp/why; then echo opened; else cat /tmp/why; fi");
    let said = fixture.run(&["exec", pod, "--", "/bin/sh", "-c", &script])?;
    ensure!(said.contains("opened") || said.contains("not permitted"), "{pod}: {node}: {said}");
    Ok(said.contains("opened"))
}

fn events(fixture: &ClusterFixture<'_>, reason: &str) -> Result<Vec<Value>, Failure> {
    let events = fixture.get(&["events", "--field-selector", &format!("reason={reason}")])?;
    Ok(events["items"].as_array().cloned().unwrap_or_default())
}

fn text(agent: &Agent, command: &[&str]) -> Result<String, Failure> {
    let output = agent.command(command)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {error}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(agent: &Agent, command: &[&str]) -> Result<Value, Failure> {
    let text = text(agent, command)?;
    serde_json::from_str(&text).map_err(|error| Failure::Unexpected(format!("{command:?}: {error}: {text}")))
}

/// The directory of a pod's only container in the v1 devices controller.
fn rules(pod: &Value) -> Result<PathBuf, Failure> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    let id = id.rsplit('/').next().unwrap_or_default();
    find(Path::new(CONTROLLER), id).ok_or_else(|| Failure::Unexpected(format!("there is no cgroup {id}")))
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
    let own = below.iter().find(|path| path.ends_with(name)).cloned();
    own.or_else(|| below.iter().find_map(|path| find(path, name)))
}

fn write(path: &Path, line: &str) -> Result<(), Failure> {
    fs::write(path, line).map_err(Failure::file(path))
}
