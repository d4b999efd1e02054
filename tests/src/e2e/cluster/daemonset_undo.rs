//! The manifests `deploy/augment.yaml` and `deploy/undo.yaml`, which are what the chart says in mode augment:
//! a DaemonSet that writes beside the node's agent, and everything that it wrote put back before it is
//! removed.

use std::net::{Ipv4Addr, SocketAddr};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::NEEDS;
use super::beside::cgroup;
use super::daemonset::{objects, pods, ready};
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use crate::e2e::packages::image;
use crate::e2e::support::eventually;
use crate::fixture::{free_port, get};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_daemonset_is_undone", undone).timeout(300).needs(NEEDS)];

const AUGMENT: &str = include_str!("../../../../deploy/augment.yaml");
const UNDO: &str = include_str!("../../../../deploy/undo.yaml");

/// What an agent of the DaemonSet wrote that was then killed is put back by the Job that the chart runs
/// before it is uninstalled, and stays so.
fn undone(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    image::import(context, fixture.containerd())?;
    let port = free_port().map_err(Failure::file("a free port"))?;
    let mut limited = pod("limited", fixture.name(), WAIT);
    limited["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "500m", "memory": "32Mi" } });
    fixture.apply(&limited)?;
    let limited = fixture.wait_ready("limited")?;
    let directory = cgroup(limited["metadata"]["uid"].as_str().unwrap_or_default())?;
    let file = ["cpu.max.burst", "cpu.cfs_burst_us"].map(|name| directory.join(name));
    let Some(file) = file.into_iter().find(|file| file.exists()) else {
        return Err(Failure::Skip("this kernel has no burst of CPU quotas (Linux 5.14)".into()));
    };
    let burst = || std::fs::read_to_string(&file).map(|text| text.trim_end().to_owned());
    let burst = || burst().map_err(Failure::file(&file));
    ensure_eq!(burst()?, "0", "the burst before");

    apply(&fixture, &AUGMENT.replace("cpuBurst: Audit", "cpuBurst: Enforce"), port)?;
    ready(&fixture, None)?;
    eventually(context.patiently(40), "the burst is not written", || Ok((burst()? != "0").then_some(())))?;
    let healthy = get(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "/healthz", context.patiently(10))?;
    ensure!(healthy.status == 200, "/healthz answers {}: {}", healthy.status, healthy.text());

    // Stopped, it does not end when it is asked to, and is killed with what it wrote in place.
    kill(agent(&fixture)?, Signal::SIGSTOP).map_err(|errno| Failure::file("kill")(errno.into()))?;
    apply(&fixture, UNDO, port)?;
    let job = || fixture.get(&["job", "nodewarden-undo"]);
    let done =
        eventually(context.patiently(120), "", || Ok((job()?["status"]["succeeded"] == 1).then_some(())));
    done.map_err(|failure| {
        let logs = fixture.run(&["logs", "job/nodewarden-undo", "--tail", "20"]).unwrap_or_default();
        let pods: Vec<_> =
            pods(&fixture).unwrap_or_default().iter().map(|pod| pod["status"].to_string()).collect();
        Failure::Unexpected(format!("the Job is not complete{failure}: {pods:?}\n{logs}"))
    })?;
    ensure_eq!(burst()?, "0", "the burst after the Job");
    let logs = fixture.run(&["logs", "daemonset/nodewarden", "--container", "undo"])?;
    ensure!(logs.contains("values were put back") && !logs.starts_with("0 values"), "the pod says: {logs}");

    fixture.run(&["delete", "job", "nodewarden-undo"])?;
    fixture.run(&["delete", "daemonset", "nodewarden"])?;
    eventually(context.patiently(60), "the DaemonSet's pod is still there", || {
        Ok(pods(&fixture)?.is_empty().then_some(()))
    })?;
    for kind in ["clusterrole", "clusterrolebinding"] {
        fixture.kubectl().run(&["delete", kind, "nodewarden-augment"])?;
    }
    ensure_eq!(burst()?, "0", "the burst at the end");
    fixture.finish()
}

/// Applies manifests for this node. There is no kube-proxy, so that the API server is reached through the
/// machine.
fn apply(fixture: &ClusterFixture<'_>, manifests: &str, port: u16) -> Result<(), Failure> {
    let server = fixture.cluster().server().trim_start_matches("https://").to_owned();
    let (host, server_port) = server.rsplit_once(':').unwrap_or((&server, "443"));
    let namespaced =
        manifests.replace("=nodewarden/nodewarden", &format!("={}/nodewarden", fixture.namespace()));
    for mut object in objects(fixture, &namespaced, port)? {
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            spec["hostNetwork"] = json!(true);
            spec["terminationGracePeriodSeconds"] = json!(3);
            let container = &mut spec["containers"][0];
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            for (name, value) in [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", server_port)]
            {
                variables.push(json!({ "name": name, "value": value }));
            }
            container["env"] = Value::Array(variables);
        }
        fixture.apply(&object)?;
    }
    Ok(())
}

/// The process of the DaemonSet's agent.
fn agent(fixture: &ClusterFixture<'_>) -> Result<Pid, Failure> {
    let pods = pods(fixture)?;
    let [pod] = &pods[..] else {
        return Err(Failure::Unexpected(format!("the DaemonSet has {} pods", pods.len())));
    };
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let id = super::fixture::container_id(pod).as_str().unwrap_or_default();
    let path = cgroup(uid)?.join(id.trim_start_matches("containerd://")).join("cgroup.procs");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let pid = text.lines().find_map(|line| line.trim().parse().ok());
    pid.map(Pid::from_raw).ok_or_else(|| Failure::Unexpected(format!("{} has {text:?}", path.display())))
}
