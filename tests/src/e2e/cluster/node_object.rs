//! The node object: it comes back when it was deleted, is one agent's at a time, and is registered as
//! configured.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{ClusterFixture, condition, container_id, ensure_no_restart};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::fixture::{Agent, AgentOptions, Manage, TestRoot, free_port};
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_node_deleted", deleted).timeout(240).needs(NEEDS),
    Test::new("cluster_node_name_taken", name_taken).timeout(240).needs(NEEDS),
    Test::new("cluster_node_registration", registration).timeout(240).needs(NEEDS),
    Test::new("cluster_node_rights", rights).timeout(240).needs(NEEDS),
];

/// A node object that someone deletes is registered again, and its pods go on.
fn deleted(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    // A kubelet registers its node only when it starts.
    fixture.agent()?;
    fixture.apply(&pod("stays", fixture.name(), WAIT))?;
    let before = fixture.wait_ready("stays")?;
    let first = fixture.node()?["metadata"]["uid"].clone();
    let begun = Instant::now();
    fixture.kubectl().run(&["delete", "node", fixture.name()])?;
    eventually(context.patiently(60), "the node is not registered again and ready", || {
        let Ok(node) = fixture.node() else { return Ok(None) };
        Ok((node["metadata"]["uid"] != first && condition(&node, "Ready") == Some("True")).then_some(()))
    })?;
    println!("{REPORTED}node deleted to ready again: {:.1} s", begun.elapsed().as_secs_f64());
    // One that the scheduler places, and one that is bound by its name.
    fixture.apply(&pod("placed", fixture.name(), WAIT))?;
    let mut bound = pod("bound", fixture.name(), WAIT);
    bound["spec"]["nodeName"] = fixture.name().into();
    fixture.apply(&bound)?;
    for name in ["placed", "bound"] {
        fixture.wait_ready(name)?;
    }
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    ensure_eq!(container_id(&after), container_id(&before), "the container that ran all the time");
    // The new lease is removed with the new node.
    fixture.wait_renewed(30)?;
    let lease = fixture.kubectl().get(&["lease", "--namespace", "kube-node-lease", fixture.name()])?;
    let node = fixture.node()?;
    ensure_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"], "the lease's owner");
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}

/// A second agent with the name of one that is alive ends and says why. Nothing of the first is touched.
fn name_taken(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    // Skips with a kubelet, whose lease says less.
    fixture.agent()?;
    fixture.apply(&pod("stays", fixture.name(), WAIT))?;
    let before = fixture.wait_ready("stays")?;
    let node = fixture.node()?;
    let holder = || -> Result<Value, Failure> {
        let lease = fixture.kubectl().get(&["lease", "--namespace", "kube-node-lease", fixture.name()])?;
        Ok(lease["metadata"]["annotations"]["nodewarden.io/holder"].clone())
    };
    let first_holder = holder()?;
    ensure!(first_holder.is_string(), "the lease does not name its holder: {first_holder}");

    let root = TestRoot::named(context, "-second")?;
    let begun = Instant::now();
    let mut second = Agent::spawn(context, &second(context, &fixture, root.group().path())?)?;
    let ended =
        eventually(context.patiently(60), "the second agent does not end", || Ok(second.has_ended()?));
    let log = second.log();
    let status = match ended {
        Ok(status) => status,
        Err(failure) => {
            let _ended = second.end(Signal::SIGTERM, Duration::from_secs(10));
            return Err(Failure::Unexpected(format!("{failure}: {log}")));
        }
    };
    println!("{REPORTED}second agent of a name started to ended: {:.1} s", begun.elapsed().as_secs_f64());
    ensure!(!status.success(), "the second agent ended with {status}");
    let says = |line: &&str| {
        line.contains("another agent that is alive has the name") && line.contains(fixture.name())
    };
    ensure!(log.lines().any(|line| says(&line)), "the second agent does not say why it ends: {log}");
    ensure_eq!(holder()?, first_holder, "holder of the lease");
    fixture.wait_renewed(30)?;
    let now = fixture.node()?;
    ensure_eq!(now["metadata"]["uid"], node["metadata"]["uid"], "uid of the node");
    ensure_eq!(now["status"]["daemonEndpoints"], node["status"]["daemonEndpoints"], "port of the node");
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    ensure_eq!(container_id(&after), container_id(&before), "the container of the first agent");
    ensure_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "uid of the pod");
    fixture.finish()
}

/// The settings of an agent with the same name, the same container runtime, and its own files and ports.
fn second(context: &Context, fixture: &ClusterFixture<'_>, root: &str) -> Result<AgentOptions, Failure> {
    let manifests = context.temp.join("second-manifests");
    std::fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
    let port = free_port().map_err(Failure::file("a free port"))?;
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    Ok(AgentOptions {
        manage: Some(Manage {
            manifests,
            root: root.to_owned(),
            driver: "cgroupfs",
            reconcile_seconds: 60,
            kubelet: format!(
                "podLogsDir: {}\nhealthzPort: 0\nport: {port}\nfailSwapOn: false\n",
                context.temp.join("second-logs").display()
            ),
            section: format!("devices:\n  kubeletDir: {}", context.temp.join("k2").display()),
        }),
        runtime: Some(fixture.runtime().to_owned()),
        state: Some(context.temp.join("second-state")),
        arguments: vec![
            "--kubeconfig".into(),
            text(fixture.cluster().node(fixture.name())?),
            "--hostname-override".into(),
            fixture.name().to_owned(),
            "--cert-dir".into(),
            text(context.temp.join("second-pki")),
        ],
        ..AgentOptions::default()
    })
}

/// Taints, labels and the number of images are those of the configuration.
fn registration(context: &Context) -> Result<(), Failure> {
    const TAINT: &str = "registerWithTaints: [{key: example.com/new, value: 'yes', effect: NoSchedule}]\n";
    let fixture = Prepared::new(context)?.start(NodeOptions {
        lines: format!("{TAINT}nodeStatusMaxImages: 1\n"),
        arguments: vec!["--node-labels".into(), "example.com/zone=a,node.kubernetes.io/rack=r7".into()],
        ..NodeOptions::default()
    })?;
    let node = fixture.node()?;
    let labels = &node["metadata"]["labels"];
    for (label, value) in [("example.com/zone", "a"), ("node.kubernetes.io/rack", "r7")] {
        ensure_eq!(labels[label], value, "label {label}");
    }
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let taint = json!({ "key": "example.com/new", "value": "yes", "effect": "NoSchedule" });
    ensure!(taints.contains(&taint), "taints: {taints:?}");
    let images = eventually(context.patiently(30), "the node shows no images", || {
        let images = fixture.node()?["status"]["images"].as_array().cloned().unwrap_or_default();
        Ok((!images.is_empty()).then_some(images))
    })?;
    ensure_eq!(images.len(), 1, "images with nodeStatusMaxImages: 1");
    ensure!(images[0]["sizeBytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "image: {}", images[0]);
    ensure!(images[0]["names"][0].is_string(), "the image has no name: {}", images[0]);

    fixture.apply(&pod("refused", fixture.name(), WAIT))?;
    let mut tolerant = pod("tolerant", fixture.name(), WAIT);
    tolerant["spec"]["nodeSelector"]["example.com/zone"] = "a".into();
    tolerant["spec"]["tolerations"] = json!([{ "key": "example.com/new", "operator": "Exists" }]);
    fixture.apply(&tolerant)?;
    fixture.wait_ready("tolerant")?;
    let refused = fixture.wait_pod("refused", "refused by the scheduler", 20, |pod| {
        condition(pod, "PodScheduled") == Some("False")
    })?;
    ensure!(refused["spec"]["nodeName"].is_null(), "a pod is on a node whose taint it does not tolerate");
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}

/// In a normal life of pods the agent asks for nothing that a node may not do; and its certificate allows
/// nothing else.
fn rights(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let own = fixture.cluster().kubectl_with(&fixture.cluster().node(fixture.name())?);
    for (kind, data) in [("ConfigMap", "data"), ("Secret", "stringData")] {
        fixture.apply(&json!({
            "apiVersion": "v1", "kind": kind, "metadata": { "name": "named" }, data: { "key": "value" },
        }))?;
    }
    let mut reader = pod("reader", fixture.name(), WAIT);
    reader["spec"]["volumes"] = json!([
        { "name": "map", "configMap": { "name": "named" } },
        { "name": "secret", "secret": { "secretName": "named" } },
    ]);
    let container = &mut reader["spec"]["containers"][0];
    container["volumeMounts"] =
        json!([{ "name": "map", "mountPath": "/map" }, { "name": "secret", "mountPath": "/secret" }]);
    container["env"] = json!([{
        "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "named", "key": "key" } },
    }]);
    fixture.apply(&reader)?;
    // No node has this label: it stays without one.
    let mut foreign = pod("foreign", fixture.name(), WAIT);
    foreign["spec"]["nodeSelector"] = json!({ "example.com/there": "no" });
    fixture.apply(&foreign)?;
    fixture.wait_ready("reader")?;
    for refused in [
        &["delete", "pod", "foreign"][..],
        &["annotate", "pod", "reader", "example.com/by=node"],
        &["get", "configmaps"],
        &["create", "configmap", "mine"],
    ] {
        let answer = own.run(&[&["--namespace", fixture.name()], refused].concat());
        let says = answer.as_ref().map_or_else(ToString::to_string, Clone::clone);
        ensure!(
            answer.is_err() && says.to_lowercase().contains("forbidden"),
            "{refused:?} as a node: {says}"
        );
    }
    fixture.run(&["delete", "pod", "reader", "--wait=false"])?;
    fixture.wait_gone("reader", 30)?;
    // Mirror pods, events, leases and reviews of tokens were needed until here.
    fixture.wait_renewed(30)?;
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}
