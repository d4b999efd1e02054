//! Two NUMA nodes with four CPUs each: CPUs, memory and devices of one node.

use std::collections::BTreeMap;
use std::time::Duration;

use nodewarden_machine::cpu_set::CpuSet;
use serde_json::json;

use super::NUMA_NEEDS;
use super::fixture::ManagersFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::eventually;
use crate::fixture::{Behaviour, NativePlugin, PluginDevice};
use crate::harness::{Capability, Context, Failure, Test};
use crate::page::page_bytes;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("numa_pods_have_cpus_and_memory_of_one_node", aligned).timeout(240).needs(NUMA_NEEDS),
    Test::new("numa_pod_that_cannot_be_aligned_is_refused", refused).timeout(180).needs(NUMA_NEEDS),
    Test::new("numa_pods_have_devices_of_their_node", with_devices).timeout(180).needs(NUMA_NEEDS),
    Test::new("numa_survives_unplugged_processor", unplugged).timeout(240).needs(&[
        Capability::Root,
        Capability::Cri,
        Capability::MemoryCgroup,
        Capability::CpuCgroup,
        Capability::Cpuset,
        Capability::NumaNodes,
        Capability::Loopback,
        Capability::OwnMachine,
    ]),
];

/// Everything from one NUMA node, whole cores, and CPU 0's core reserved.
const ALIGNED: &str = "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n\
                       memoryManagerPolicy: Static\ntopologyManagerPolicy: single-numa-node\n\
                       evictionHard: {memory.available: 100Mi}\n\
                       reservedMemory: [{numaNode: 0, limits: {memory: 60Mi}}, {numaNode: 1, limits: {memory: 40Mi}}]\n";

/// The resource of the test's device plugin.
pub const RESOURCE: &str = "nodewarden.test/card";

/// A process may have so many pages from before it was in its container's cgroup (24 were seen).
const EARLY_PAGES: u64 = 64;

/// The core of CPU 0, and the CPUs of each of the first two NUMA nodes.
struct Shape {
    core: CpuSet,
    nodes: [CpuSet; 2],
}

fn shape() -> Result<Shape, Failure> {
    let machine = nodewarden_topology::read(std::path::Path::new("/sys/devices/system"));
    let machine = machine.map_err(|error| Failure::Unexpected(error.to_string()))?;
    let nodes = machine.cpus.nodes();
    ensure!(nodes.len() >= 2, "there are {} NUMA nodes", nodes.len());
    let core = machine.cpus.whole_cores(&CpuSet::parse("0").unwrap_or_default());
    Ok(Shape { core, nodes: [nodes[0].cpus.clone(), nodes[1].cpus.clone()] })
}

fn settings(shape: &Shape) -> String {
    format!("{ALIGNED}reservedSystemCPUs: \"{}\"\n", shape.core)
}

fn cpus(fixture: &ManagersFixture<'_>, pod: &ListedPod) -> Result<CpuSet, Failure> {
    let text = fixture.cgroup_file(pod, "cpuset.cpus")?;
    CpuSet::parse(&text).map_err(|_| Failure::Unexpected(format!("CPUs {text:?}")))
}

/// Two pods, each with the CPUs and memory of one node; their tasks run nowhere else, no other pod's run
/// there, and their memory is on their node. Neither kill -9 nor a restart changes anything.
fn aligned(context: &Context) -> Result<(), Failure> {
    let shape = shape()?;
    let mut fixture = ManagersFixture::new(context, &settings(&shape))?;
    // 24 MiB of its memory are filled before it spins.
    let fill = format!("x=$(head -c 25165824 /dev/zero | tr '\\0' a); {}", fixture.spin());
    fixture.pods.put([
        fixture.shared("neighbour"),
        fixture.guaranteed("first", 2, "128Mi", &fill),
        fixture.guaranteed("second", 2, "128Mi", &fill),
    ])?;
    let pods = ["first", "second", "neighbour"].map(|name| fixture.pods.wait_up(name));
    let [first, second, neighbour] = pods;
    let (first, second, neighbour) = (first?, second?, neighbour?);
    let mut taken = CpuSet::default();
    for pod in [&first, &second] {
        let own = cpus(&fixture, pod)?;
        ensure_eq!(own.len(), 2, "CPUs of {}", pod.name());
        ensure!(own.is_disjoint(&taken) && own.is_disjoint(&shape.core), "CPUs {own} of {}", pod.name());
        let node = shape.nodes.iter().position(|node| own.is_subset(node));
        let Some(node) = node else {
            return Err(Failure::Unexpected(format!("CPUs {own} of {} are on several nodes", pod.name())));
        };
        ensure_eq!(fixture.cgroup_file(pod, "cpuset.mems")?, node.to_string(), "memory of {}", pod.name());
        ensure!(fixture.has_no_quota(pod)?, "a CPU quota limits {}", pod.name());
        taken.add(&own);
        let pages = pages(&fixture, pod)?;
        let elsewhere: u64 = pages.iter().filter(|(at, _)| **at != node as u32).map(|(_, pages)| pages).sum();
        let here = pages.get(&(node as u32)).copied().unwrap_or(0);
        ensure!(
            (here + elsewhere) * page_bytes() as u64 >= 20 << 20 && elsewhere <= EARLY_PAGES,
            "anonymous pages of {} by node: {pages:?}",
            pod.name()
        );
    }
    ensure!(cpus(&fixture, &neighbour)?.is_disjoint(&taken), "its neighbour shares CPUs {taken}");
    let ran = fixture.ran_on(&[&first, &second, &neighbour], Duration::from_secs(4))?;
    for (pod, ran) in [&first, &second].iter().zip(&ran) {
        let own = cpus(&fixture, pod)?;
        ensure!(!ran.is_empty() && ran.keys().all(|cpu| own.contains(*cpu)), "{} ran on {ran:?}", pod.name());
    }
    ensure!(ran[2].keys().all(|cpu| !taken.contains(*cpu)), "the neighbour ran on {:?}", ran[2]);
    let (before, memory) = (fixture.cpu_state()?, fixture.state("memory_manager_state")?);
    for killed in [true, false] {
        if killed {
            fixture.pods.kill_agent()?;
        } else {
            fixture.pods.stop_agent();
        }
        fixture.pods.start_agent()?;
        for pod in [&first, &second, &neighbour] {
            let now = fixture.pods.wait_up(pod.name())?;
            ensure_eq!(now.container("c")?.id(), pod.container("c")?.id(), "container of {}", pod.name());
        }
        ensure_eq!(fixture.cpu_state()?, before, "cpu_manager_state after a restart");
        ensure_eq!(fixture.state("memory_manager_state")?, memory, "memory_manager_state after a restart");
    }
    fixture.pods.finish()
}

/// A pod has its CPUs and its device from one NUMA node. One that needs more CPUs than the node with the
/// devices has is refused with the device's name, and starts once a device of the other node is there.
fn with_devices(context: &Context) -> Result<(), Failure> {
    let shape = shape()?;
    let mut fixture = ManagersFixture::new(context, &settings(&shape))?;
    let mut behaviour = Behaviour::new(&fixture.file("device-plugins"), RESOURCE, &[]);
    // The node whose first core is reserved.
    behaviour.devices = ["a0", "a1"].map(|id| PluginDevice::healthy(id).on(0)).to_vec();
    let plugin = NativePlugin::start(&behaviour, None).map_err(Failure::file("a plugin's threads"))?;
    fixture.wait_devices(RESOURCE, &["a0", "a1"])?;
    fixture
        .pods
        .put([fixture.with_device("small", 2), fixture.with_device("large", shape.nodes[1].len() as u32)])?;
    let small = fixture.pods.wait_up("small")?;
    let own = cpus(&fixture, &small)?;
    ensure!(own.len() == 2 && own.is_subset(&shape.nodes[0]), "CPUs {own} are not of the devices' node");
    let is_refused = |pod: &ListedPod| pod.text("/status/reason") == "TopologyAffinityError";
    let refused = fixture.pods.wait_until("large", "refused", 30, is_refused)?;
    let message = refused.text("/status/message");
    ensure!(message.contains(RESOURCE), "the device is not named: {message}");

    let mut devices = behaviour.devices.clone();
    devices.push(PluginDevice::healthy("b0").on(1));
    plugin.set_devices(devices);
    let large = fixture.pods.wait_until("large", "up", 60, ListedPod::is_up)?;
    let all = cpus(&fixture, &large)?;
    ensure!(all == shape.nodes[1], "CPUs {all} are not those of the new device's node");
    for (pod, ids) in [("small", &["a0", "a1"][..]), ("large", &["b0"])] {
        let given = fixture.given_devices(pod, RESOURCE)?;
        ensure!(given.len() == 1 && given.iter().all(|id| ids.contains(&id.as_str())), "{pod} has {given:?}");
    }
    fixture.pods.finish()
}

/// Anonymous pages of a container's first process by NUMA node, from its `numa_maps`.
fn pages(fixture: &ManagersFixture<'_>, pod: &ListedPod) -> Result<BTreeMap<u32, u64>, Failure> {
    let mut found = BTreeMap::new();
    let filled = eventually(fixture.context().patiently(20), "", || {
        found.clear();
        let pids = fixture.cgroup_file(pod, "cpuset.cpus").and_then(|_| procs(fixture, pod))?;
        for pid in pids {
            let text = std::fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
            for line in text.lines().filter(|line| line.contains(" anon=")) {
                for (node, pages) in
                    line.split(' ').filter_map(|word| word.strip_prefix('N')?.split_once('='))
                {
                    if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
                        *found.entry(node).or_insert(0) += pages;
                    }
                }
            }
        }
        Ok((found.values().sum::<u64>() * page_bytes() as u64 >= 20 << 20).then_some(()))
    });
    filled
        .map_err(|_| Failure::Unexpected(format!("{} has not filled its memory: {found:?}", pod.name())))?;
    Ok(found)
}

fn procs(fixture: &ManagersFixture<'_>, pod: &ListedPod) -> Result<Vec<u32>, Failure> {
    let path = fixture.pods.container_cgroup(pod, "c")?;
    let hierarchy = fixture.context().layout.controller("cpuset");
    let hierarchy = hierarchy.ok_or_else(|| Failure::Unexpected("no cpuset controller".into()))?;
    let file = hierarchy.mount.join(path.trim_start_matches('/')).join("cgroup.procs");
    let text = std::fs::read_to_string(&file).map_err(Failure::file(&file))?;
    Ok(text.lines().filter_map(|pid| pid.parse().ok()).collect())
}

/// A pod that needs CPUs of both nodes waits, with the reason and the resources in its status; it starts once
/// there is room on one node.
fn refused(context: &Context) -> Result<(), Failure> {
    let shape = shape()?;
    let mut fixture = ManagersFixture::new(context, &settings(&shape))?;
    let large = shape.nodes[1].len() as u32;
    for name in ["first", "second"] {
        fixture.pods.put([fixture.exclusive(name, 2)])?;
        fixture.pods.wait_up(name)?;
    }
    // The first one is on the node of the reserved core, the second one on the other. Both have two CPUs
    // left.
    fixture.pods.remove("first")?;
    fixture.pods.wait_gone(&["first"])?;
    fixture.pods.put([fixture.exclusive("large", large)])?;
    let is_refused = |pod: &ListedPod| pod.text("/status/reason") == "TopologyAffinityError";
    let refused = fixture.pods.wait_until("large", "refused", 30, is_refused)?;
    let message = refused.text("/status/message");
    ensure!(message.contains("Resources cannot be allocated with Topology locality: cpu"), "{message}");
    ensure_eq!(fixture.cpu_state()?.1.as_object().map_or(0, serde_json::Map::len), 1, "pods with CPUs");
    fixture.pods.remove("second")?;
    fixture.pods.wait_gone(&["second"])?;
    let now = fixture.pods.wait_until("large", "up", 60, ListedPod::is_up)?;
    ensure!(cpus(&fixture, &now)?.is_subset(&shape.nodes[1]), "its CPUs are not those of one node");
    fixture.pods.finish()
}

/// A CPU of a running container goes offline and comes back: the container runs on with the others, and what
/// the agent says is what the kernel has.
fn unplugged(context: &Context) -> Result<(), Failure> {
    let shape = shape()?;
    let settings = format!(
        "cpuManagerPolicy: static\ncpuManagerReconcilePeriod: 1s\nreservedSystemCPUs: \"{}\"\n",
        shape.core
    );
    let mut fixture = ManagersFixture::new(context, &settings)?;
    fixture.pods.put([fixture.shared("neighbour"), fixture.exclusive("own", 2)])?;
    let (own, neighbour) = (fixture.pods.wait_up("own")?, fixture.pods.wait_up("neighbour")?);
    let before = cpus(&fixture, &own)?;
    let lost = before.iter().last().unwrap_or(1);
    let left: CpuSet = before.iter().filter(|cpu| *cpu != lost).collect();
    let _back = Online(lost);
    set_online(lost, false)?;
    eventually(context.patiently(20), "the state does not say that the CPU is lost", || {
        let (_, entries) = fixture.cpu_state()?;
        Ok((entries[own.uid()]["c"] == json!(left.to_string())).then_some(()))
    })?;
    let now = fixture.pods.wait_up("own")?;
    ensure_eq!(now.container("c")?.id(), own.container("c")?.id(), "the container");
    let ran = fixture.ran_on(&[&own, &neighbour], Duration::from_secs(3))?;
    ensure!(ran[0].keys().all(|cpu| left.contains(*cpu)), "it ran on {:?}, not on {left}", ran[0]);
    ensure!(ran[1].keys().all(|cpu| !left.contains(*cpu)), "its neighbour ran on {:?}", ran[1]);
    set_online(lost, true)?;
    // It is free now, and shared.
    eventually(context.patiently(20), "the CPU is not shared after it came back", || {
        let shared = CpuSet::parse(&fixture.cpu_state()?.0).unwrap_or_default();
        Ok((shared.contains(lost) && cpus(&fixture, &neighbour)?.contains(lost)).then_some(()))
    })?;
    fixture.pods.finish()
}

/// Brings a CPU back, also when the test fails.
struct Online(u32);

impl Drop for Online {
    fn drop(&mut self) {
        let _ = set_online(self.0, true);
    }
}

fn set_online(cpu: u32, online: bool) -> Result<(), Failure> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    std::fs::write(&path, if online { "1" } else { "0" }).map_err(Failure::file(&path))
}
