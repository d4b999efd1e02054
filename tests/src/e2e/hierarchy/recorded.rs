//! Pods that a real kubelet ran, compared file by file with the values that it wrote.

use std::process::Command;

use serde_json::Value;

use super::compare::{self, Wrong, children};
use super::fixture::{Driver, HierarchyFixture};
use super::recording::{Batch, Recording, file_for, text};
use crate::fixture::Agent;
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Golden,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

pub const TESTS: &[Test] = &[
    Test::new("hierarchy_matches_kubelet", cgroupfs).needs(NEEDS).timeout(120),
    Test::new("hierarchy_matches_kubelet_memory_qos", memory_qos)
        .needs(&[Capability::Root, Capability::Golden, Capability::MemoryV2, Capability::Loopback])
        .timeout(120),
    Test::new("hierarchy_matches_kubelet_systemd", systemd)
        .needs(&[
            Capability::Root,
            Capability::Golden,
            Capability::MemoryV2,
            Capability::Systemd,
            Capability::OwnMachine,
            Capability::Loopback,
        ])
        .timeout(180),
];

/// Values that the recording has wrong or that cannot be compared (golden/README.md): they are replaced by
/// the right ones.
const WRONG_IN_RECORDING: [&str; 2] = ["memory.min of kubepods", "memory.min of kubepods/burstable"];

/// With the cgroupfs driver every file of levels and pods has the kubelet's value, also after a restart and
/// after the pods' removal.
fn cgroupfs(context: &Context) -> Result<(), Failure> {
    let v2 = context.layout.controller("memory").is_some_and(|h| h.v2);
    compare_with_recording(context, file_for(v2, Driver::Cgroupfs), Driver::Cgroupfs, "")
}

/// The same with the feature MemoryQoS.
fn memory_qos(context: &Context) -> Result<(), Failure> {
    let on = "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.9\n";
    compare_with_recording(context, "kubelet-v2-memqos.json", Driver::Cgroupfs, on)
}

/// The same with the systemd driver, also units' properties, and after systemd's reload and re-execution.
fn systemd(context: &Context) -> Result<(), Failure> {
    compare_with_recording(context, "kubelet-v2-systemd.json", Driver::Systemd, "")
}

/// Runs each batch of pods of a recording, and compares it.
fn compare_with_recording(
    context: &Context,
    file: &str,
    driver: Driver,
    kubelet: &str,
) -> Result<(), Failure> {
    let recording = Recording::load(file)?;
    // Requests to the runtime are compared from the output of `nodewarden plan`.
    let managed = HierarchyFixture::new(context, driver, 60, &format!("maxPods: 250\n{kubelet}"))?;
    let mut agent = managed.start()?;
    for batch in &recording.batches {
        for pod in &batch.pods {
            managed.write(&pod.name, &pod.manifest)?;
        }
        managed.wait_settled(&agent, batch.pods.len())?;
        compare_all(context, &managed, batch, "running")?;
        compare_requests(&managed, batch)?;
        if driver == Driver::Systemd {
            compare_units(&managed, batch)?;
            for command in ["daemon-reload", "daemon-reexec"] {
                systemctl(&[command])?;
                compare_all(context, &managed, batch, command)?;
                compare_units(&managed, batch)?;
            }
        }
        agent = restart(context, &managed, agent)?;
        managed.wait_settled(&agent, batch.pods.len())?;
        compare_all(context, &managed, batch, "after a restart")?;
        for pod in &batch.pods {
            managed.remove(&pod.name)?;
        }
        managed.wait_settled(&agent, 0)?;
        let wrong = levels(context, &managed, batch, true);
        compare::fail_if_any(&format!("batch {}, pods removed", batch.name), &wrong)?;
        for level in batch.levels.keys() {
            let left: Vec<_> = children(&context.layout, &managed.level(level))
                .into_iter()
                .filter(|c| c.contains("pod") && !c.ends_with(".slice"))
                .collect();
            let left: Vec<_> =
                left.into_iter().filter(|c| !batch.levels.keys().any(|l| managed.level(l) == *c)).collect();
            ensure!(left.is_empty(), "leftovers in {level}: {left:?}");
        }
    }
    Ok(())
}

/// Ends the agent by SIGTERM, and starts the next one.
fn restart(context: &Context, managed: &HierarchyFixture<'_>, mut agent: Agent) -> Result<Agent, Failure> {
    let status = agent.end(nix::sys::signal::Signal::SIGTERM, context.patiently(5))?;
    ensure!(status.success(), "the agent ended with {status}");
    managed.start()
}

/// Compares the files of every level and every pod.
fn compare_all(
    context: &Context,
    managed: &HierarchyFixture<'_>,
    batch: &Batch,
    when: &str,
) -> Result<(), Failure> {
    let mut wrong = levels(context, managed, batch, false);
    for pod in &batch.pods {
        let path = managed.below_root(&pod.path);
        wrong.extend(compare::files(context, &path, &pod.files));
        for name in &pod.present_in {
            let present = context
                .layout
                .hierarchies()
                .iter()
                .filter(|h| {
                    if name == "unified" {
                        h.v2
                    } else {
                        h.controllers.iter().any(|c| c == name || *c == format!("name={name}"))
                    }
                })
                .all(|h| h.mount.join(path.trim_start_matches('/')).is_dir());
            ensure!(present, "{path} is not in the hierarchy {name}");
        }
    }
    compare::fail_if_any(&format!("batch {}, {when}", batch.name), &wrong)
}

/// Compares the files of every level, while the pods run or `after` their removal.
fn levels(context: &Context, managed: &HierarchyFixture<'_>, batch: &Batch, after: bool) -> Vec<Wrong> {
    let recorded = if after { &batch.levels_after } else { &batch.levels };
    let mut wrong = Vec::new();
    for (level, files) in recorded {
        let mut files = files.clone();
        if WRONG_IN_RECORDING.contains(&&*format!("memory.min of {level}"))
            && files.contains_key("memory.min")
        {
            let covered = batch.pods.iter().filter(|p| !after && p.path.starts_with(&format!("/{level}/")));
            let sum: u64 = covered.filter_map(|p| p.files.get("memory.min")?.parse::<u64>().ok()).sum();
            files.insert("memory.min".into(), sum.to_string());
        }
        wrong.extend(compare::files(context, &managed.level(level), &files));
    }
    wrong
}

/// Compares the request to the runtime for each container.
fn compare_requests(managed: &HierarchyFixture<'_>, batch: &Batch) -> Result<(), Failure> {
    let plan = managed.plan()?;
    let memory = std::fs::read_to_string("/proc/meminfo").map_err(Failure::file("/proc/meminfo"))?;
    for pod in &batch.pods {
        let planned = plan["pods"].as_array().into_iter().flatten().find(|p| p["name"] == *pod.name);
        let Some(planned) = planned else {
            return Err(Failure::Unexpected(format!("{} is not in the plan", pod.name)));
        };
        for (name, recorded) in &pod.requests {
            let mut recorded = recorded.clone();
            let mut found = planned["containers"][name]["runtime"].clone();
            keep_page_sizes_of_this_machine(&mut recorded);
            remove_values_by_memory(&mut recorded, &mut found, &memory);
            ensure_eq!(found, recorded, "request to the runtime for container {name} of {}", pod.name);
        }
    }
    Ok(())
}

/// Removes limits of huge page sizes that this machine lacks: the recorded node had 2 MiB and 1 GiB.
fn keep_page_sizes_of_this_machine(recorded: &mut Value) {
    if let Some(limits) = recorded.get_mut("hugepage_limits").and_then(Value::as_array_mut) {
        limits.retain(|limit| compare::has_page_size(limit["page_size"].as_str().unwrap_or_default()));
    }
}

/// Removes values that depend on the node's memory, unless it is that of the recorded node: oom_score_adj of
/// Burstable containers, and memory.high without a limit. Unit tests compare them with the recorded node's
/// memory.
fn remove_values_by_memory(recorded: &mut Value, found: &mut Value, meminfo: &str) {
    let same_node = meminfo.contains("24684096 kB") || meminfo.contains("20488608 kB");
    let by_share = recorded["oom_score_adj"].as_i64().is_some_and(|adj| (3..1000).contains(&adj));
    let unlimited = recorded.get("memory_limit_in_bytes").is_none();
    for fields in [recorded, found].into_iter().filter(|_| !same_node).filter_map(Value::as_object_mut) {
        if by_share {
            fields.remove("oom_score_adj");
        }
        if let Some(unified) = fields.get_mut("unified").and_then(Value::as_object_mut).filter(|_| unlimited)
        {
            unified.remove("memory.high");
        }
    }
}

/// Compares the properties of the pods' units.
fn compare_units(managed: &HierarchyFixture<'_>, batch: &Batch) -> Result<(), Failure> {
    const COMPARED: [&str; 13] = [
        "Slice",
        "ControlGroup",
        "CPUWeight",
        "CPUQuotaPerSecUSec",
        "AllowedCPUs",
        "MemoryMin",
        "MemoryLow",
        "MemoryHigh",
        "MemoryMax",
        "MemorySwapMax",
        "TasksMax",
        "ActiveState",
        "DefaultDependencies",
    ];
    for pod in &batch.pods {
        let path = managed.below_root(&pod.path);
        let unit = path.rsplit('/').next().unwrap_or_default();
        let shown = systemctl(&["show", unit])?;
        for name in COMPARED {
            let Some(expected) = pod.unit.get(name) else { continue };
            // Newer versions of systemctl leave out empty properties.
            let found =
                shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
            ensure_eq!(found, expected, "{name} of {unit}");
        }
    }
    Ok(())
}

/// Standard output of systemctl, which must succeed.
fn systemctl(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("systemctl").args(arguments).output().map_err(Failure::file("systemctl"))?;
    ensure!(
        output.status.success(),
        "systemctl {arguments:?}: {}",
        text(&String::from_utf8_lossy(&output.stderr).into())
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
