//! A changed manifest: resources in place or by restart, anything else by another pod.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::NEEDS;
use super::manifest::{STAY, one, pod, shell};
use super::seen::Seen;
use super::stage::Stage;
use crate::e2e::hierarchy::compare::{place, plain};
use crate::e2e::pressure::site::pool;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_resize_and_replace", resize).timeout(180).needs(NEEDS),
    Test::new("pod_resize_waits_for_room", waits).timeout(120).needs(NEEDS),
];

fn limits(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": "50m", "memory": "16Mi" }, "limits": { "cpu": cpu, "memory": memory } })
}

/// A pod with one container of these limits.
fn sized(name: &str, cpu: &str, memory: &str, policy: Value) -> Value {
    one(name, STAY, json!({ "resources": limits(cpu, memory), "resizePolicy": policy }))
}

/// Quota in microseconds of 100 ms, and bytes: what a cgroup's files say.
fn found(context: &Context, path: &str) -> Result<(String, String), Failure> {
    let v2 = context.layout.controller("memory").is_some_and(|hierarchy| hierarchy.v2);
    let names = if v2 { ["cpu.max", "memory.max"] } else { ["cpu.cfs_quota_us", "memory.limit_in_bytes"] };
    let read = |name: &str| -> Result<String, Failure> {
        let path = place(&context.layout, path, name)
            .ok_or_else(|| Failure::Unexpected(format!("no controller for {name}")))?;
        Ok(plain(&std::fs::read_to_string(&path).map_err(Failure::file(&path))?))
    };
    Ok((read(names[0])?.split(' ').next().unwrap_or_default().to_owned(), read(names[1])?))
}

/// Waits until a container and its pod have these limits.
fn have(stage: &Stage<'_>, pod: &Seen, cpu_us: u64, mib: u64) -> Result<(), Failure> {
    let context = stage.context();
    let expected = (cpu_us.to_string(), (mib << 20).to_string());
    for path in [stage.container_cgroup(pod, "c")?, stage.cgroup(pod)?] {
        let mut last = Default::default();
        let has = eventually(context.patiently(15), "", || {
            last = found(context, &path)?;
            Ok((last == expected).then_some(()))
        });
        has.map_err(|_| Failure::Unexpected(format!("{path} has {last:?}, not {expected:?}")))?;
    }
    Ok(())
}

fn resize(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::new(context)?;
    let restart = json!([
        { "resourceName": "cpu", "restartPolicy": "NotRequired" },
        { "resourceName": "memory", "restartPolicy": "RestartContainer" },
    ]);
    stage.put([
        sized("inplace", "200m", "32Mi", Value::Null),
        sized("restarts", "200m", "32Mi", restart.clone()),
        one("bystander", STAY, json!({})),
    ])?;
    let bystander = stage.up("bystander")?;
    let before = stage.up("inplace")?;
    have(&stage, &before, 20_000, 32)?;
    // Up, down, and one up while the other goes down.
    for (cpu, cpu_us, memory, mib) in
        [("400m", 40_000, "64Mi", 64), ("100m", 10_000, "24Mi", 24), ("300m", 30_000, "20Mi", 20)]
    {
        stage.put([sized("inplace", cpu, memory, Value::Null)])?;
        have(&stage, &before, cpu_us, mib)?;
        let now = stage.up("inplace")?;
        ensure_eq!(identity(&now)?, identity(&before)?, "uid, container and restarts after {cpu} {memory}");
    }
    let shown = stage.up("inplace")?.0["spec"]["containers"][0]["resources"]["limits"]["cpu"].clone();
    ensure_eq!(shown, json!("300m"), "the limit that /pods shows");

    let before = stage.up("restarts")?;
    stage.put([sized("restarts", "400m", "32Mi", restart.clone())])?;
    have(&stage, &before, 40_000, 32)?;
    ensure_eq!(identity(&stage.up("restarts")?)?, identity(&before)?, "after its CPU alone");
    stage.put([sized("restarts", "400m", "48Mi", restart)])?;
    let after = stage.until("restarts", "restarted", 20, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    have(&stage, &after, 40_000, 48)?;
    ensure_eq!(after.uid(), before.uid(), "uid after a restart");
    ensure!(
        after.container("c")?.id() != before.container("c")?.id(),
        "the container is the same after a restart"
    );

    replace(&mut stage)?;
    ensure_eq!(identity(&stage.up("bystander")?)?, identity(&bystander)?, "a pod whose manifest is the same");
    stage.finish()
}

/// A pod that requests memory.
fn requesting(name: &str, mib: u64) -> Value {
    one(name, STAY, json!({ "resources": { "requests": { "memory": format!("{mib}Mi") } } }))
}

/// It keeps what it has until what it should have is free, and is never more than the node gives.
fn waits(context: &Context) -> Result<(), Failure> {
    // 390 MiB for pods.
    let mut stage = Stage::with(context, &pool(10, "")?, "")?;
    let begun = SystemTime::now();
    stage.put([requesting("grows", 100), requesting("holds", 200)])?;
    let before = identity(&stage.up("grows")?)?;
    stage.up("holds")?;
    let until = |stage: &Stage<'_>, mib: u64, why: &str| {
        let mut last = String::new();
        let is = eventually(context.patiently(20), "", || {
            let now = stage.up("grows")?;
            ensure_eq!(identity(&now)?, before, "uid, container and restarts");
            let requests = &now.0["spec"]["containers"][0]["resources"]["requests"]["memory"];
            let output = stage.command(&["pods", "describe", "grows"])?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().find_map(|line| line.strip_prefix("Resize:"));
            last = format!("requests {requests}, resize {line:?}");
            let shown = *requests == json!(format!("{mib}Mi"));
            let said = line.unwrap_or_default().trim().starts_with(why) && line.is_some() != why.is_empty();
            Ok((shown && said).then_some(()))
        });
        is.map_err(|_| Failure::Unexpected(format!("not {mib} Mi and {why:?}, but {last}")))
    };
    until(&stage, 100, "")?;
    stage.put([requesting("grows", 500)])?;
    until(&stage, 100, "Infeasible: Node didn't have enough capacity: memory, requested: 524288000")?;
    stage.put([requesting("grows", 250)])?;
    until(
        &stage,
        100,
        "Deferred: Node didn't have enough resource: memory, requested: 262144000, used: 209715200",
    )?;
    // Thought better of, and wanted after all, by an agent that does not know of it.
    stage.put([requesting("grows", 100)])?;
    until(&stage, 100, "")?;
    stage.kill_agent()?;
    stage.put([requesting("grows", 250)])?;
    stage.start_agent()?;
    until(&stage, 100, "Deferred: ")?;
    let now = stage.up("grows")?;
    let conditions = now.0["status"]["conditions"].as_array().into_iter().flatten();
    let pending = conditions.filter(|own| own["type"] == "PodResizePending").map(|own| own["reason"].clone());
    ensure_eq!(pending.collect::<Vec<_>>(), [json!("Deferred")], "the condition");
    stage.remove("holds")?;
    until(&stage, 250, "")?;
    for reason in ["ResizeInfeasible", "ResizeDeferred"] {
        ensure!(!stage.notes("grows", reason, begun)?.is_empty(), "no event {reason}");
    }
    // What it has now, nobody else gets.
    stage.put([requesting("late", 200)])?;
    stage.until("late", "OutOfmemory", 20, |pod| pod.text("/status/reason") == "OutOfmemory")?;
    stage.put([requesting("grows", 150)])?;
    stage.up("late")?;
    until(&stage, 150, "")?;
    stage.finish()
}

type Identity = (String, String, u64);

fn identity(pod: &Seen) -> Result<Identity, Failure> {
    let c = pod.container("c")?;
    Ok((pod.uid().to_owned(), c.id().to_owned(), c.restarts()))
}

/// The old pod ends before the new one of its name begins.
fn replace(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let notes = stage.context().temp.join("notes");
    std::fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let with = |word: &str| {
        let script = format!(
            "echo {word} begins >> /notes/all; \
            trap 'sleep 0.5; echo {word} ends >> /notes/all; exit 0' TERM; while true; do sleep 600 & wait $!; done"
        );
        let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
        pod(
            "other",
            json!({ "terminationGracePeriodSeconds": 10,
            "volumes": [{ "name": "notes", "hostPath": { "path": notes } }],
            "containers": [shell("c", &script, mount)] }),
        )
    };
    stage.put([with("first")])?;
    let first = stage.up("other")?;
    let home = stage.home_of(&first)?;
    stage.put([with("second")])?;
    let second = stage.until("other", "another pod", 30, |pod| pod.is_up() && pod.uid() != first.uid())?;
    ensure_eq!(second.container("c")?.restarts(), 0, "restarts of another pod");
    ensure!(!home.exists(), "{} of the first pod is still there", home.display());
    let text = std::fs::read_to_string(notes.join("all")).map_err(Failure::file(&notes))?;
    ensure_eq!(text, "first begins\nfirst ends\nsecond begins\n", "the order");
    Ok(())
}
