//! Changed manifests: resources are resized in place or by a restart, any other change replaces the pod.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::PodFixture;
use super::listed::ListedPod;
use super::manifest::{STAY, one, pod, shell};
use crate::e2e::hierarchy::compare::{place, plain};
use crate::e2e::pressure::fixture::{PressureFixture, pool_config};
use crate::e2e::support::{MIB, eventually};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_resize_and_replace", resize).timeout(180).needs(NEEDS),
    Test::new("pod_resize_waits_for_resources", waits).timeout(120).needs(NEEDS),
    Test::new("memory_limit_waits_until_less_is_used", shrinks).timeout(180).needs(NEEDS),
];

fn limits(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": "50m", "memory": "16Mi" }, "limits": { "cpu": cpu, "memory": memory } })
}

/// A pod with one container of these limits.
fn sized(name: &str, cpu: &str, memory: &str, policy: Value) -> Value {
    one(name, STAY, json!({ "resources": limits(cpu, memory), "resizePolicy": policy }))
}

/// A cgroup's CPU quota in microseconds per 100 ms and memory limit in bytes, from its files.
fn limits_of(context: &Context, path: &str) -> Result<(String, String), Failure> {
    let v2 = context.layout.controller("memory").is_some_and(|hierarchy| hierarchy.v2);
    let names = if v2 { ["cpu.max", "memory.max"] } else { ["cpu.cfs_quota_us", "memory.limit_in_bytes"] };
    let read = |name: &str| -> Result<String, Failure> {
        let path = place(&context.layout, path, name)
            .ok_or_else(|| Failure::Unexpected(format!("no controller for {name}")))?;
        Ok(plain(&std::fs::read_to_string(&path).map_err(Failure::file(&path))?))
    };
    Ok((read(names[0])?.split(' ').next().unwrap_or_default().to_owned(), read(names[1])?))
}

/// Waits until the cgroups of a container and of its pod have these limits.
fn wait_limits(fixture: &PodFixture<'_>, pod: &ListedPod, cpu_us: u64, mib: u64) -> Result<(), Failure> {
    let context = fixture.context();
    let expected = (cpu_us.to_string(), (mib << 20).to_string());
    for path in [fixture.container_cgroup(pod, "c")?, fixture.cgroup(pod)?] {
        let mut last = Default::default();
        let has = eventually(context.patiently(15), "", || {
            last = limits_of(context, &path)?;
            Ok((last == expected).then_some(()))
        });
        has.map_err(|_| Failure::Unexpected(format!("{path} has {last:?}, not {expected:?}")))?;
    }
    Ok(())
}

/// New limits are set in place, or by a restart where `resizePolicy` says so; other changes replace the pod;
/// other pods are unharmed.
fn resize(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let restart = json!([
        { "resourceName": "cpu", "restartPolicy": "NotRequired" },
        { "resourceName": "memory", "restartPolicy": "RestartContainer" },
    ]);
    fixture.put([
        sized("inplace", "200m", "32Mi", Value::Null),
        sized("restarts", "200m", "32Mi", restart.clone()),
        one("bystander", STAY, json!({})),
    ])?;
    let bystander = fixture.wait_up("bystander")?;
    let before = fixture.wait_up("inplace")?;
    wait_limits(&fixture, &before, 20_000, 32)?;
    // Both up, both down, and one up while the other goes down.
    for (cpu, cpu_us, memory, mib) in
        [("400m", 40_000, "64Mi", 64), ("100m", 10_000, "24Mi", 24), ("300m", 30_000, "20Mi", 20)]
    {
        fixture.put([sized("inplace", cpu, memory, Value::Null)])?;
        wait_limits(&fixture, &before, cpu_us, mib)?;
        let now = fixture.wait_up("inplace")?;
        ensure_eq!(identity(&now)?, identity(&before)?, "uid, container and restarts after {cpu} {memory}");
    }
    let shown = fixture.wait_up("inplace")?.0["spec"]["containers"][0]["resources"]["limits"]["cpu"].clone();
    ensure_eq!(shown, json!("300m"), "the limit that /pods shows");

    let before = fixture.wait_up("restarts")?;
    fixture.put([sized("restarts", "400m", "32Mi", restart.clone())])?;
    wait_limits(&fixture, &before, 40_000, 32)?;
    ensure_eq!(
        identity(&fixture.wait_up("restarts")?)?,
        identity(&before)?,
        "after a resize of its CPU alone"
    );
    fixture.put([sized("restarts", "400m", "48Mi", restart)])?;
    let after = fixture.wait_until("restarts", "restarted", 20, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    wait_limits(&fixture, &after, 40_000, 48)?;
    ensure_eq!(after.uid(), before.uid(), "uid after a restart");
    ensure!(
        after.container("c")?.id() != before.container("c")?.id(),
        "the container is the same after a restart"
    );

    replace(&mut fixture)?;
    ensure_eq!(
        identity(&fixture.wait_up("bystander")?)?,
        identity(&bystander)?,
        "a pod whose manifest is the same"
    );
    fixture.finish()
}

/// A pod that requests `mib` MiB of memory.
fn requesting(name: &str, mib: u64) -> Value {
    one(name, STAY, json!({ "resources": { "requests": { "memory": format!("{mib}Mi") } } }))
}

/// A pod keeps its resources until those of its resize are free; the status says Infeasible or Deferred with
/// the reason meanwhile.
fn waits(context: &Context) -> Result<(), Failure> {
    // 390 MiB are allocatable to pods.
    let mut fixture = PodFixture::with_config(context, &pool_config(10, "")?, "")?;
    let begun = SystemTime::now();
    fixture.put([requesting("grows", 100), requesting("holds", 200)])?;
    let before = identity(&fixture.wait_up("grows")?)?;
    fixture.wait_up("holds")?;
    let wait_resize = |fixture: &PodFixture<'_>, mib: u64, why: &str| {
        let mut last = String::new();
        let is = eventually(context.patiently(20), "", || {
            let now = fixture.wait_up("grows")?;
            ensure_eq!(identity(&now)?, before, "uid, container and restarts");
            let requests = &now.0["spec"]["containers"][0]["resources"]["requests"]["memory"];
            let output = fixture.command(&["pods", "describe", "grows"])?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().find_map(|line| line.strip_prefix("Resize:"));
            last = format!("requests {requests}, resize {line:?}");
            let shown = *requests == json!(format!("{mib}Mi"));
            let said = line.unwrap_or_default().trim().starts_with(why) && line.is_some() != why.is_empty();
            Ok((shown && said).then_some(()))
        });
        is.map_err(|_| Failure::Unexpected(format!("not {mib} Mi and {why:?}, but {last}")))
    };
    wait_resize(&fixture, 100, "")?;
    fixture.put([requesting("grows", 500)])?;
    wait_resize(&fixture, 100, "Infeasible: Node didn't have enough capacity: memory, requested: 524288000")?;
    fixture.put([requesting("grows", 250)])?;
    wait_resize(
        &fixture,
        100,
        "Deferred: Node didn't have enough resource: memory, requested: 262144000, used: 209715200",
    )?;
    // The resize is taken back, and made again while no agent runs.
    fixture.put([requesting("grows", 100)])?;
    wait_resize(&fixture, 100, "")?;
    fixture.kill_agent()?;
    fixture.put([requesting("grows", 250)])?;
    fixture.start_agent()?;
    wait_resize(&fixture, 100, "Deferred: ")?;
    let now = fixture.wait_up("grows")?;
    let conditions = now.0["status"]["conditions"].as_array().into_iter().flatten();
    let pending = conditions.filter(|own| own["type"] == "PodResizePending").map(|own| own["reason"].clone());
    ensure_eq!(pending.collect::<Vec<_>>(), [json!("Deferred")], "reason of the condition PodResizePending");
    fixture.remove("holds")?;
    wait_resize(&fixture, 250, "")?;
    for reason in ["ResizeInfeasible", "ResizeDeferred"] {
        ensure!(!fixture.notes("grows", reason, begun)?.is_empty(), "no event {reason}");
    }
    // Another pod cannot get the resources that it has now.
    fixture.put([requesting("late", 200)])?;
    fixture.wait_until("late", "OutOfmemory", 20, |pod| pod.text("/status/reason") == "OutOfmemory")?;
    fixture.put([requesting("grows", 150)])?;
    fixture.wait_up("late")?;
    wait_resize(&fixture, 150, "")?;
    fixture.finish()
}

/// A memory limit below what a container uses is not set: nothing is killed, the status says
/// PodResizeInProgress with the kubelet's words, and the limit is set when the container uses less.
fn shrinks(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::new(context, "", "")?;
    let sized = |fixture: &PressureFixture<'_>, mib: u64| {
        let resources = json!({ "limits": { "cpu": "500m", "memory": format!("{mib}Mi") } });
        fixture.greedy("shrinks", resources, &[], json!({}))
    };
    fixture.pods.put([sized(&fixture, 256)])?;
    let before = fixture.pods.wait_up("shrinks")?;
    wait_limits(&fixture.pods, &before, 50_000, 256)?;
    fixture.hold("shrinks", 160)?;
    let begun = SystemTime::now();
    fixture.pods.put([sized(&fixture, 96)])?;
    let expected = format!("[attempting to set pod memory limit ({}) below current usage (", 96 * MIB);
    let shown = eventually(
        context.patiently(20),
        "the status does not say that the resize cannot be done now",
        || {
            let now = fixture.pods.wait_up("shrinks")?;
            let conditions = now.0["status"]["conditions"].as_array().cloned().unwrap_or_default();
            // Without a reason as long as it has not been tried.
            let is_error = |own: &Value| own["type"] == "PodResizeInProgress" && own["reason"] == "Error";
            Ok(conditions.into_iter().find(is_error))
        },
    )?;
    let message = shown["message"].as_str().unwrap_or_default();
    ensure!(message.contains(&expected), "message of the condition PodResizeInProgress: {message}");
    ensure!(message.contains("container \"c\" memory limit"), "message of PodResizeInProgress: {message}");
    // Tried again several times meanwhile, and reported once.
    std::thread::sleep(Duration::from_secs(12));
    wait_limits(&fixture.pods, &before, 50_000, 256)?;
    ensure_eq!(identity(&fixture.pods.wait_up("shrinks")?)?, identity(&before)?, "while more is in use");
    ensure_eq!(fixture.pods.notes("shrinks", "ResizeError", begun)?.len(), 1, "events ResizeError");
    ensure_eq!(fixture.pods.notes("shrinks", "Resized", begun)?.len(), 0, "events Resized");

    fixture.hold("shrinks", 8)?;
    wait_limits(&fixture.pods, &before, 50_000, 96)?;
    let now = eventually(context.patiently(20), "PodResizeInProgress is still shown", || {
        let now = fixture.pods.wait_up("shrinks")?;
        let conditions = now.0["status"]["conditions"].as_array().cloned().unwrap_or_default();
        Ok((!conditions.iter().any(|own| own["type"] == "PodResizeInProgress")).then_some(now))
    })?;
    ensure_eq!(identity(&now)?, identity(&before)?, "uid, container and restarts, with the lower limit");
    ensure_eq!(fixture.pods.notes("shrinks", "Resized", begun)?.len(), 1, "events Resized");
    fixture.pods.finish()
}

/// What a resize in place must not change: uid, container id and number of restarts.
type Identity = (String, String, u64);

/// Uid, container id and number of restarts of a pod.
fn identity(pod: &ListedPod) -> Result<Identity, Failure> {
    let c = pod.container("c")?;
    Ok((pod.uid().to_owned(), c.id().to_owned(), c.restarts()))
}

/// Checks that the old pod has ended before the new one of its name starts.
fn replace(fixture: &mut PodFixture<'_>) -> Result<(), Failure> {
    let notes = fixture.context().temp.join("notes");
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
    fixture.put([with("first")])?;
    let first = fixture.wait_up("other")?;
    let pod_dir = fixture.pod_dir(&first)?;
    fixture.put([with("second")])?;
    let second = fixture
        .wait_until("other", "replaced by another pod", 30, |pod| pod.is_up() && pod.uid() != first.uid())?;
    ensure_eq!(second.container("c")?.restarts(), 0, "restarts of another pod");
    ensure!(!pod_dir.exists(), "{} of the first pod is still there", pod_dir.display());
    let text = std::fs::read_to_string(notes.join("all")).map_err(Failure::file(&notes))?;
    ensure_eq!(
        text,
        "first begins\nfirst ends\nsecond begins\n",
        "order of the old pod's end and the new one's start"
    );
    Ok(())
}
