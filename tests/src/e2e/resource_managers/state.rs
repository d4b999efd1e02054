//! The state files: damaged, of a kubelet, and of another policy.

use std::time::SystemTime;

use serde_json::json;

use super::NEEDS;
use super::exclusive::{STATIC, lists};
use super::fixture::ManagersFixture;
use crate::e2e::support::{eventually, since};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("resource_managers_damaged_state", damaged).timeout(120).needs(NEEDS),
    Test::new("resource_managers_change_of_policy", policies).timeout(180).needs(NEEDS),
    Test::new("resource_managers_free_gone_pods", gone).timeout(120).needs(NEEDS),
    Test::new("resource_managers_memory_nodes", memory).timeout(120).needs(NEEDS),
];

/// What a kubelet 1.36 has written for a container on CPU 1 of a machine with two CPUs. The checksum is that
/// of `../shared/golden/resource_managers`' format for this content.
fn of_a_kubelet(uid: &str) -> String {
    // A checksum of 0 is accepted in this format, as by the kubelet.
    json!({ "policyName": "static", "defaultCpuSet": "0", "entries": { uid: { "c": "1" } }, "checksum": 0 })
        .to_string()
}

/// A damaged state file is set aside, and the runtime says which CPUs each container is on.
fn damaged(context: &Context) -> Result<(), Failure> {
    let (_, others) = lists()?;
    let mut fixture = ManagersFixture::new(context, STATIC)?;
    fixture.pods.put([fixture.shared("neighbour"), fixture.exclusive("own", 1)])?;
    let (neighbour, own) = (fixture.pods.wait_up("neighbour")?, fixture.pods.wait_up("own")?);
    let before = fixture.cpu_state()?;
    fixture.pods.kill_agent()?;
    let path = fixture.file("cpu_manager_state");
    std::fs::write(&path, "{\"policyName\":\"static\"").map_err(Failure::file(&path))?;
    let begun = SystemTime::now();
    fixture.pods.start_agent()?;
    let now = fixture.pods.wait_up("own")?;
    ensure_eq!(now.container("c")?.id(), own.container("c")?.id(), "the container");
    eventually(context.patiently(15), "the state is not written again", || {
        Ok(fixture.cpu_state().is_ok_and(|state| state == before).then_some(()))
    })?;
    fixture.wait_cpus(&now, "1")?;
    fixture.wait_cpus(&neighbour, &others)?;
    ensure!(path.with_extension("damaged").exists(), "the damaged file is not kept");
    let quiet = context.patiently(10);
    let events =
        fixture.pods.agent()?.client()?.watch(since(begun, &["agent"]))?.collect(quiet, quiet, |_| true)?;
    let said = format!("{:?}", events.iter().map(|received| &received.event.detail).collect::<Vec<_>>());
    ensure!(said.contains("ResourceStateDamaged"), "no event says that it was damaged: {said}");
    fixture.pods.finish()
}

/// The policy is turned off and on again with pods running: no state file has to be removed, no container
/// starts again, and what a pod should have it gets.
fn policies(context: &Context) -> Result<(), Failure> {
    let (_, others) = lists()?;
    let mut fixture = ManagersFixture::new(context, STATIC)?;
    fixture.pods.put([fixture.shared("neighbour"), fixture.exclusive("own", 1)])?;
    let (neighbour, own) = (fixture.pods.wait_up("neighbour")?, fixture.pods.wait_up("own")?);
    fixture.pods.stop_agent();
    // The same CPU stays reserved, or the pod that came with the policy would not fit.
    fixture.pods.set_kubelet("reservedSystemCPUs: \"0\"\n");
    fixture.pods.start_agent()?;
    let now = fixture.pods.wait_up("own")?;
    ensure_eq!(now.container("c")?.id(), own.container("c")?.id(), "the container without the policy");
    fixture.pods.put([fixture.shared("third")])?;
    fixture.pods.wait_up("third")?;
    fixture.pods.stop_agent();
    fixture.pods.set_kubelet(STATIC);
    fixture.pods.start_agent()?;
    let now = fixture.pods.wait_up("own")?;
    ensure_eq!(now.container("c")?.id(), own.container("c")?.id(), "the container with the policy again");
    fixture.wait_cpus(&now, "1")?;
    fixture.wait_cpus(&neighbour, &others)?;
    fixture.wait_cpus(&fixture.pods.wait_up("third")?, &others)?;
    fixture.pods.finish()
}

/// The CPUs of a kubelet's pods that are no more are given to others.
fn gone(context: &Context) -> Result<(), Failure> {
    let uid = "0b6ba7f4-0000-4000-8000-000000000001";
    let state = of_a_kubelet(uid);
    let mut fixture = ManagersFixture::with_state(context, STATIC, &[("cpu_manager_state", &state)])?;
    fixture.pods.put([fixture.exclusive("own", 1)])?;
    let own = fixture.pods.wait_until("own", "up", 60, |pod| pod.is_up())?;
    fixture.wait_cpus(&own, "1")?;
    let (_, entries) = fixture.cpu_state()?;
    ensure_eq!(entries, json!({ own.uid(): { "c": "1" } }), "entries of the state");
    fixture.pods.finish()
}

/// Memory of a Guaranteed pod is bound to a NUMA node.
fn memory(context: &Context) -> Result<(), Failure> {
    let settings = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n\
                    evictionHard: {memory.available: 100Mi}\n";
    if std::path::Path::new("/sys/devices/system/node/node1").exists() {
        return Err(Failure::Skip("there are several NUMA nodes, which numa_memory tests".into()));
    }
    if !std::path::Path::new("/sys/devices/system/node/node0").exists() {
        return Err(Failure::Skip("this kernel has no NUMA nodes".into()));
    }
    let mut fixture = ManagersFixture::new(context, settings)?;
    fixture.pods.put([fixture.exclusive("own", 1), fixture.shared("neighbour")])?;
    let own = fixture.pods.wait_up("own")?;
    ensure_eq!(fixture.cgroup_file(&own, "cpuset.mems")?, "0", "memory nodes of the container");
    let state = fixture.state("memory_manager_state")?;
    let blocks = json!([{ "numaAffinity": [0], "type": "memory", "size": 32 << 20 }]);
    ensure_eq!(state["entries"][own.uid()]["c"], blocks, "the pod in memory_manager_state");
    ensure_eq!(state["policyName"], json!("Static"), "policy in memory_manager_state");
    fixture.pods.remove("own")?;
    fixture.pods.wait_gone(&["own"])?;
    ensure!(fixture.state("memory_manager_state")?["entries"].is_null(), "entries after its end");
    fixture.pods.finish()
}
