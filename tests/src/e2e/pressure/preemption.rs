//! Preemption by critical pods.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{PressureFixture, critical, guaranteed, requests};
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("preemption_of_the_pod_that_suffices", preempts).timeout(120).needs(NEEDS),
    Test::new("preemption_of_no_pod_in_vain", in_vain).timeout(120).needs(NEEDS),
];

/// MiB available at the threshold: of the pool of 400 MiB pods may request 320.
const LEFT_MIB: u64 = 80;

/// A pod that keeps running, and writes a note to the directory on SIGTERM.
fn noting_pod(folder: &Path, name: &str, resources: Value, spec: Value) -> Value {
    let script =
        format!("trap 'echo x >> /notes/{name}; exit 0' TERM; while true; do sleep 600 & wait $!; done");
    let volume = json!([{ "name": "notes", "hostPath": { "path": folder, "type": "Directory" } }]);
    let mount = json!([{ "name": "notes", "mountPath": "/notes" }]);
    let container = shell("c", &script, json!({ "resources": resources, "volumeMounts": mount }));
    let usual = json!({ "terminationGracePeriodSeconds": 20, "volumes": volume, "containers": [container] });
    pod(name, merged(usual, spec))
}

/// The directory of the notes.
fn folder(context: &Context) -> Result<std::path::PathBuf, Failure> {
    let folder = context.temp.join("notes");
    fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    Ok(folder)
}

/// A critical pod preempts only the pod whose request suffices, which ends gracefully and starts again once
/// there is room.
fn preempts(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let notes = folder(context)?;
    let pod = |name: &str, resources: Value, spec: Value| noting_pod(&notes, name, resources, spec);
    let others = fixture.put_and_wait_up([
        pod("best-effort", json!({}), json!({})),
        pod("small", requests(40), json!({})),
        pod("guaranteed", guaranteed(120), json!({})),
    ])?;
    fixture.put_and_wait_up([pod("medium", requests(100), json!({}))])?;
    // 60 MiB are free: preempting `small` would not free enough, and Guaranteed pods are preempted last.
    let arriving = pod("critical", requests(110), critical());
    let critical = fixture.put_and_wait_up([arriving])?;
    ensure_eq!(fixture.chosen("preemption")?, ["medium"], "chosen pods");
    ensure!(notes.join("medium").exists(), "it got no SIGTERM");
    fixture.check_unchanged(&others)?;
    let decision = fixture.carried_out("preemption")?.pop();
    let decision = decision.ok_or_else(|| Failure::Unexpected("no decision".into()))?;
    ensure!(!decision.outcome.is_empty() && !decision.steps.is_empty(), "{decision:?}");
    let preempted = fixture.metric("kubelet_preemptions", ("preemption_signal", "memory"))?;
    ensure_eq!(preempted, 1.0, "preemptions by the agent's metric");
    // It starts again when there is room, and not before.
    fixture.wait_pending("medium", "OutOfmemory")?;
    fixture.check_unchanged(&critical)?;
    fixture.pods.remove("critical")?;
    fixture.pods.wait_up("medium")?;
    fixture.check_unchanged(&others)?;
    ensure_eq!(fs::read_dir(&notes).map_err(Failure::file(&notes))?.count(), 2, "pods that got SIGTERM");
    fixture.pods.finish()
}

/// No pod is preempted where that would not free enough, for a pod that is not critical, or for one that
/// another reason keeps out.
fn in_vain(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let notes = folder(context)?;
    let pod = |name: &str, resources: Value, spec: Value| noting_pod(&notes, name, resources, spec);
    let all = fixture.put_and_wait_up([
        pod("ordinary", requests(60), json!({})),
        pod("best-effort", json!({}), json!({})),
        pod("equal", requests(160), critical()),
    ])?;
    // 100 MiB are free, and preemption could free 60 more; the rest is of an equally critical pod.
    fixture.pods.put([pod("critical", requests(200), critical())])?;
    let message = fixture.wait_pending("critical", "OutOfmemory")?;
    ensure!(message.contains("memory"), "the message does not say what is missing: {message:?}");
    // Nothing is preempted for a pod with a high but not critical priority, nor for a pod that the node's
    // labels keep out.
    let important = json!({ "priority": 1_000_000 });
    fixture.pods.put([pod("important", requests(120), important)])?;
    fixture.wait_pending("important", "OutOfmemory")?;
    let elsewhere = merged(critical(), json!({ "nodeSelector": { "kubernetes.io/hostname": "other" } }));
    fixture.pods.put([pod("elsewhere", requests(120), elsewhere)])?;
    fixture.wait_pending("elsewhere", "NodeAffinity")?;
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    fixture.wait_pending("critical", "OutOfmemory")?;
    fixture.check_unchanged(&all)?;
    ensure_eq!(fixture.chosen("preemption")?, Vec::<String>::new(), "chosen pods");
    // Once preemption suffices, it happens.
    fixture.pods.remove("equal")?;
    fixture.pods.wait_up("critical")?;
    eventually(context.patiently(20), "the BestEffort pod does not run", || {
        Ok(fixture.pods.pod("best-effort")?.is_some_and(|pod| pod.is_up()).then_some(()))
    })?;
    fixture.check_unchanged(&all[1..2])?;
    fixture.pods.finish()
}
