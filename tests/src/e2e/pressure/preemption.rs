//! Critical pods make room for themselves: whom they take, that these end as they like, and that nobody goes for nothing.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::NEEDS;
use super::site::{Site, critical, guaranteed, requests};
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("preemption_takes_the_one_that_suffices", takes).timeout(120).needs(NEEDS),
    Test::new("preemption_takes_nobody_in_vain", in_vain).timeout(120).needs(NEEDS),
];

/// Left at the threshold: with the pool of 400 MiB pods may ask for 320.
const LEFT_MIB: u64 = 80;

/// A pod that stays, and notes in the folder that it was asked to end.
fn stays(folder: &Path, name: &str, resources: Value, spec: Value) -> Value {
    let script =
        format!("trap 'echo x >> /told/{name}; exit 0' TERM; while true; do sleep 600 & wait $!; done");
    let volume = json!([{ "name": "told", "hostPath": { "path": folder, "type": "Directory" } }]);
    let mount = json!([{ "name": "told", "mountPath": "/told" }]);
    let container = shell("c", &script, json!({ "resources": resources, "volumeMounts": mount }));
    let usual = json!({ "terminationGracePeriodSeconds": 20, "volumes": volume, "containers": [container] });
    pod(name, merged(usual, spec))
}

fn folder(context: &Context) -> Result<std::path::PathBuf, Failure> {
    let folder = context.temp.join("told");
    fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    Ok(folder)
}

fn takes(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let told = folder(context)?;
    let pod = |name: &str, resources: Value, spec: Value| stays(&told, name, resources, spec);
    let others = site.up([
        pod("best-effort", json!({}), json!({})),
        pod("small", requests(40), json!({})),
        pod("guaranteed", guaranteed(120), json!({})),
    ])?;
    site.up([pod("medium", requests(100), json!({}))])?;
    // 60 MiB are free: the small one would not do, and a Guaranteed one goes last.
    let arriving = pod("critical", requests(110), critical());
    let critical = site.up([arriving])?;
    ensure_eq!(site.chosen("preemption")?, ["medium"], "who was chosen");
    ensure!(told.join("medium").exists(), "it was not asked to end");
    site.unharmed(&others)?;
    let decision = site.acted("preemption")?.pop();
    let decision = decision.ok_or_else(|| Failure::Unexpected("no decision".into()))?;
    ensure!(!decision.outcome.is_empty() && !decision.steps.is_empty(), "{decision:?}");
    let preempted = site.metric("kubelet_preemptions", ("preemption_signal", "memory"))?;
    ensure_eq!(preempted, 1.0, "preemptions by the agent's word");
    // It comes back as soon as there is room: not before.
    site.waits("medium", "OutOfmemory")?;
    site.unharmed(&critical)?;
    site.stage.remove("critical")?;
    site.stage.up("medium")?;
    site.unharmed(&others)?;
    ensure_eq!(fs::read_dir(&told).map_err(Failure::file(&told))?.count(), 2, "pods that were asked to end");
    site.stage.finish()
}

fn in_vain(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let told = folder(context)?;
    let pod = |name: &str, resources: Value, spec: Value| stays(&told, name, resources, spec);
    let all = site.up([
        pod("ordinary", requests(60), json!({})),
        pod("best-effort", json!({}), json!({})),
        pod("equal", requests(160), critical()),
    ])?;
    // 100 MiB are free, and 60 more could be made so; the others are as critical.
    site.stage.put([pod("critical", requests(200), critical())])?;
    let message = site.waits("critical", "OutOfmemory")?;
    ensure!(message.contains("memory"), "the message does not say what is missing: {message:?}");
    // No room is made for what is only important, and none for who would not fit for another reason.
    let important = json!({ "priority": 1_000_000 });
    site.stage.put([pod("important", requests(120), important)])?;
    site.waits("important", "OutOfmemory")?;
    let elsewhere = merged(critical(), json!({ "nodeSelector": { "kubernetes.io/hostname": "other" } }));
    site.stage.put([pod("elsewhere", requests(120), elsewhere)])?;
    site.waits("elsewhere", "NodeAffinity")?;
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    site.waits("critical", "OutOfmemory")?;
    site.unharmed(&all)?;
    ensure_eq!(site.chosen("preemption")?, Vec::<String>::new(), "who was chosen");
    // As soon as it suffices, it is done.
    site.stage.remove("equal")?;
    site.stage.up("critical")?;
    eventually(context.patiently(20), "nobody is left", || {
        Ok(site.stage.pod("best-effort")?.is_some_and(|pod| pod.is_up()).then_some(()))
    })?;
    site.unharmed(&all[1..2])?;
    site.stage.finish()
}
