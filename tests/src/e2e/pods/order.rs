//! The order in which a pod's containers start and end, and which of them restart.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{PodFixture, SHORT_BACKOFF};
use super::manifest::{STAY, merged, pod, shell};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_init_containers_and_sidecars", order).timeout(150).needs(NEEDS),
    Test::new("pod_restart_policies", policies).timeout(150).needs(NEEDS),
];

/// A container whose script can note words in a volume that it shares with the pod's other containers.
fn noting(name: &str, script: &str, more: Value) -> Value {
    let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    shell(
        name,
        &format!("note() {{ echo $1 >> /notes/{{}}; }}; {script}").replace("{}", "all"),
        merged(mount, more),
    )
}

/// Init containers, sidecars and main containers start and end in the kubelet's order.
fn order(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let notes = context.temp.join("notes");
    let with = |name: &str, spec: Value| -> Result<Value, Failure> {
        let folder = notes.join(name);
        fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
        let volumes = json!({ "volumes": [{ "name": "notes", "hostPath": { "path": folder } }] });
        Ok(pod(name, merged(volumes, spec)))
    };
    let noted =
        |name: &str| fs::read_to_string(notes.join(name).join("all")).unwrap_or_default().replace('\n', " ");
    let sidecar = json!({ "restartPolicy": "Always" });
    let trap = "trap 'note sidecar-ended; exit 0' TERM; while true; do sleep 600 & wait $!; done";
    fixture.put([
        with("ordered", json!({
            "initContainers": [
                noting("first", "sleep 0.3; note first", json!({})),
                noting("sidecar", &format!("note sidecar; {trap}"), sidecar.clone()),
                noting("second", "sleep 0.3; note second", json!({})),
            ],
            "containers": [noting("c", "note main; trap 'sleep 0.3; note main-ended; exit 0' TERM; while true; do sleep 600 & wait $!; done", json!({}))],
            "terminationGracePeriodSeconds": 10,
        }))?,
        // A failed init container is not restarted: the pod has failed.
        with("failing", json!({ "restartPolicy": "Never",
            "initContainers": [noting("first", "note first; exit 3", json!({})), noting("second", "note second", json!({}))],
            "containers": [noting("c", "note main", json!({}))] }))?,
        // A failing init container is restarted until it succeeds.
        with("stubborn", json!({ "restartPolicy": "OnFailure",
            "initContainers": [noting("first", "note first; test `wc -l < /notes/all` -ge 3", json!({}))],
            "containers": [noting("c", "note main", json!({}))] }))?,
        // A sidecar does not keep its pod from ending.
        with("job", json!({ "restartPolicy": "Never", "terminationGracePeriodSeconds": 10,
            "initContainers": [noting("sidecar", &format!("note sidecar; {trap}"), sidecar.clone())],
            "containers": [noting("c", "sleep 0.5; note main", json!({}))] }))?,
        // A sidecar that ends is restarted, even under the pod's policy `Never`.
        with("lively", json!({ "restartPolicy": "Never",
            "initContainers": [noting("sidecar", "note sidecar; sleep 0.5; exit 1", sidecar)],
            "containers": [noting("c", STAY, json!({}))] }))?,
    ])?;

    fixture.wait_up("ordered")?;
    ensure_eq!(noted("ordered"), "first sidecar second main ", "the order of containers");
    let failed = fixture.wait_phase("failing", "Failed")?;
    ensure_eq!(noted("failing"), "first ", "containers that ran of a pod whose init container failed");
    ensure_eq!(failed.container("first")?.exit_code(), Some(3), "exit code of the init container");
    let stubborn = fixture.wait_phase("stubborn", "Succeeded")?;
    ensure_eq!(noted("stubborn"), "first first first main ", "runs of an init container until it succeeds");
    ensure_eq!(stubborn.container("first")?.restarts(), 2, "restarts of the init container");
    fixture.wait_phase("job", "Succeeded")?;
    ensure_eq!(noted("job"), "sidecar main sidecar-ended ", "a job with a sidecar");
    fixture.wait_until("lively", "restarting its sidecar", 20, |pod| {
        pod.container("sidecar").is_ok_and(|c| c.restarts() >= 2)
    })?;
    fixture.remove("ordered")?;
    fixture.wait_gone(&["ordered"])?;
    ensure_eq!(
        noted("ordered"),
        "first sidecar second main main-ended sidecar-ended ",
        "the order in which containers ended"
    );
    fixture.finish()
}

/// Containers restart as the pod's `restartPolicy` says, or the container's own (KEP-5307).
fn policies(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let ends = |code: u32| format!("sleep 0.2; exit {code}");
    let with = |name: &str, policy: &str, code: u32| {
        pod(name, json!({ "restartPolicy": policy, "containers": [shell("c", &ends(code), json!({}))] }))
    };
    fixture.put([
        with("always-0", "Always", 0),
        with("failure-0", "OnFailure", 0),
        with("failure-1", "OnFailure", 1),
        with("never-0", "Never", 0),
        with("never-1", "Never", 1),
        pod(
            "own",
            json!({ "restartPolicy": "Never", "containers": [
            shell("always", &ends(0), json!({ "restartPolicy": "Always" })),
            shell("failure", &ends(1), json!({ "restartPolicy": "OnFailure" })),
            shell("never", &ends(1), json!({ "restartPolicy": "Never" })),
            shell("pod", &ends(1), json!({})),
        ] }),
        ),
    ])?;
    for name in ["always-0", "failure-1"] {
        fixture
            .wait_until(name, "restarted", 20, |pod| pod.container("c").is_ok_and(|c| c.restarts() >= 2))?;
    }
    for (name, phase, code) in
        [("failure-0", "Succeeded", 0), ("never-0", "Succeeded", 0), ("never-1", "Failed", 1)]
    {
        let seen = fixture.wait_phase(name, phase)?;
        let c = seen.container("c")?;
        ensure_eq!((c.restarts(), c.exit_code()), (0, Some(code)), "restarts and exit code of {name}");
    }
    let own = fixture.wait_until("own", "restarting two of its containers", 20, |pod| {
        ["always", "failure"].iter().all(|name| pod.container(name).is_ok_and(|c| c.restarts() >= 2))
    })?;
    ensure_eq!(own.phase(), "Running", "phase of a pod with restarting containers");
    for name in ["never", "pod"] {
        let c = own.container(name)?;
        ensure!(c.restarts() == 0 && c.terminated().is_some(), "container {name}: {}", c.0);
    }
    // None of the finished containers restarts later.
    std::thread::sleep(Duration::from_secs(2));
    for name in ["failure-0", "never-0", "never-1"] {
        let seen = fixture.pod(name)?;
        ensure_eq!(
            seen.map(|pod| pod.container("c").map(|c| c.restarts()).unwrap_or(99)),
            Some(0),
            "restarts of {name} later"
        );
    }
    fixture.finish()
}
