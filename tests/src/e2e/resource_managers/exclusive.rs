//! A container with a CPU for itself, beside one that shares the others.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::NEEDS;
use super::fixture::ManagersFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("resource_managers_exclusive_cpus", alone).timeout(180).needs(NEEDS),
    Test::new("resource_managers_refuse_resize", no_resize).timeout(120).needs(NEEDS),
];

/// The policy with CPU 0 reserved, which leaves CPU 1 of a machine with two CPUs.
pub const STATIC: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n";

/// The CPUs of this machine, and those that others share while CPU 1 is taken, as lists.
pub fn lists() -> Result<(String, String), Failure> {
    let path = "/sys/devices/system/cpu/online";
    let online = std::fs::read_to_string(path).map_err(Failure::file(path))?.trim().to_owned();
    let shared = match online.as_str() {
        "0-1" => "0".to_owned(),
        "0-2" => "0,2".to_owned(),
        more => format!("0,2-{}", more.trim_start_matches("0-")),
    };
    Ok((online, shared))
}

/// The container has its CPU from its first moment on, without a quota; others leave it before that and come
/// back at its end. Neither kill -9 nor a restart changes anything.
fn alone(context: &Context) -> Result<(), Failure> {
    let (all, others) = lists()?;
    let begun = SystemTime::now();
    let mut fixture = ManagersFixture::new(context, STATIC)?;
    fixture.pods.put([fixture.shared("neighbour")])?;
    let neighbour = fixture.pods.wait_up("neighbour")?;
    fixture.wait_cpus(&neighbour, &all)?;
    fixture.pods.put([fixture.exclusive("own", 1)])?;
    let own = fixture.pods.wait_up("own")?;
    // Others had left before it was created.
    ensure_eq!(fixture.cgroup_file(&own, "cpuset.cpus")?, "1", "CPUs of the container");
    ensure_eq!(fixture.cgroup_file(&neighbour, "cpuset.cpus")?, others, "CPUs of its neighbour");
    ensure!(fixture.has_no_quota(&own)?, "a CPU quota limits it");
    let [ran_own, ran_neighbour] = ran(&fixture, &[&own, &neighbour])?;
    ensure!(ran_own.len() == 1 && ran_own.contains_key(&1), "it ran on CPUs {ran_own:?}");
    ensure!(!ran_neighbour.contains_key(&1), "its neighbour ran on CPUs {ran_neighbour:?}");
    let entries = json!({ own.uid(): { "c": "1" } });
    ensure_eq!(fixture.cpu_state()?, (others.clone(), entries.clone()), "cpu_manager_state");
    shown(&fixture, &own)?;
    let said = fixture.pods.notes("own", "ResourcesAllocated", begun)?;
    ensure_eq!(said, ["c: CPUs 1".to_owned()], "events of the allocation");

    for killed in [true, false] {
        if killed {
            fixture.pods.kill_agent()?;
        } else {
            fixture.pods.stop_agent();
        }
        fixture.pods.start_agent()?;
        let now = fixture.pods.wait_up("own")?;
        ensure_eq!(now.container("c")?.id(), own.container("c")?.id(), "the container after a restart");
        fixture.wait_cpus(&now, "1")?;
        fixture.wait_cpus(&neighbour, &others)?;
        ensure_eq!(fixture.cpu_state()?, (others.clone(), entries.clone()), "state after a restart");
    }
    // A container that starts while the agent knows of the other one starts where it may be.
    fixture.pods.put([fixture.shared("second")])?;
    let second = fixture.pods.wait_up("second")?;
    ensure_eq!(fixture.cgroup_file(&second, "cpuset.cpus")?, others, "CPUs of a pod that came later");

    fixture.pods.remove("own")?;
    fixture.pods.wait_gone(&["own"])?;
    fixture.wait_cpus(&neighbour, &all)?;
    fixture.wait_cpus(&second, &all)?;
    ensure_eq!(fixture.cpu_state()?, (all, serde_json::Value::Null), "state after its end");
    fixture.pods.finish()
}

/// `nodewarden cpus`, PodResources and the metrics have the CPU as the container's, with who else ran on it.
fn shown(fixture: &ManagersFixture<'_>, own: &ListedPod) -> Result<(), Failure> {
    let context = fixture.context();
    let mut last = String::new();
    let counted = eventually(context.patiently(30), "", || {
        let output = fixture.pods.command(&["cpus", "--output", "json"])?;
        last = String::from_utf8_lossy(&output.stdout).into_owned();
        let map: serde_json::Value = serde_json::from_str(&last).unwrap_or_default();
        let cpu = &map["cpus"][1];
        let owner = cpu["owners"]
            == json!([{ "uid": own.uid(), "namespace": "default", "name": "own", "container": "c" }]);
        let ns = |by: &str| cpu["used"][by]["ns"].as_u64().unwrap_or(0);
        let all: u64 =
            ["owner", "kernel_thread", "other", "idle", "interrupt", "softirq"].map(ns).iter().sum();
        // It works for a good part of the time.
        Ok((owner && ns("owner") * 20 > all && map["cpus"][0]["shared"] == true).then_some(()))
    });
    counted.map_err(|_| Failure::Unexpected(format!("nodewarden cpus: {last}")))?;
    let text = String::from_utf8_lossy(&fixture.pods.command(&["cpus"])?.stdout).into_owned();
    ensure!(text.contains("exclusive") && text.contains("default/own (c)"), "{text}");
    let metrics = fixture.pods.agent()?.get("/metrics")?.text();
    let own_time = metrics.lines().find(|line| {
        line.starts_with("nodewarden_exclusive_cpu_seconds_total{") && line.contains("by=\"owner\"")
    });
    ensure!(own_time.is_some_and(|line| line.contains("cpu=\"1\"")), "no metric of CPU 1: {own_time:?}");
    Ok(())
}

fn ran<const N: usize>(
    fixture: &ManagersFixture<'_>,
    pods: &[&ListedPod; N],
) -> Result<[std::collections::BTreeMap<u32, f64>; N], Failure> {
    let ran = fixture.ran_on(pods, Duration::from_secs(2))?;
    ran.try_into().map_err(|ran| Failure::Unexpected(format!("{ran:?}")))
}

/// As with a kubelet, a running Guaranteed pod cannot get other CPUs in place.
fn no_resize(context: &Context) -> Result<(), Failure> {
    let mut fixture = ManagersFixture::new(context, STATIC)?;
    fixture.pods.put([fixture.exclusive("own", 1)])?;
    let own = fixture.pods.wait_up("own")?;
    let mut changed = fixture.exclusive("own", 1);
    changed["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("48Mi");
    fixture.pods.put([changed])?;
    let expected = "Infeasible: Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy";
    let mut last = String::new();
    let shown = eventually(context.patiently(15), "", || {
        let output = fixture.pods.command(&["pods", "describe", "own"])?;
        last = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(last.contains(expected).then_some(()))
    });
    shown.map_err(|_| Failure::Unexpected(format!("{expected:?} is not shown: {last}")))?;
    let now = fixture.pods.wait_up("own")?;
    ensure_eq!(now.container("c")?.id(), own.container("c")?.id(), "the container");
    fixture.pods.finish()
}
