//! `/stats/summary`: the node, its pods and their containers in the kubelet's form
//! (`pkg/kubelet/server/stats`, `pkg/kubelet/stats/helper.go`).
//!
//! What pods use on disk is what was counted last ([`DiskView`]); what is not known completely is left out.
//! Of volumes only `emptyDir` on disk are shown. `process_count` has the processes in cgroups below a
//! container's too. Page faults are the hierarchical count (the kubelet shows a pod's own cgroup's count,
//! which on v1 is 0).

mod disk;
mod rates;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

pub use rates::Readings;
pub use types::Summary;
use types::{
    ContainerStats, CpuStats, FsStats, InterfaceStats, IoStats, MemoryStats, NetworkStats, NodeStats,
    PodReference, PodStats, ProcessStats, PsiData, PsiStats, RlimitStats, RuntimeStats, SwapStats, Time,
};

use super::rows::{Names, current, succeeds};
use nodewarden_model::{
    DiskView, GroupView, Identity, Interface, Machine, Pressure, PressureLine, Snapshot, SystemCgroups,
    Usage, Workload,
};

/// The kubelet's `defaultNetworkInterfaceName`.
const DEFAULT_INTERFACE: &str = "eth0";

/// cAdvisor's `isIgnoredDevice`: prefixes of interfaces that do not count as the node's network.
const IGNORED_INTERFACES: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// What the summary shows beside a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The cgroups of the node's own processes.
    pub system: SystemCgroups,
    /// Processes and network of pods, by uid, read with the snapshot.
    pub workloads: BTreeMap<String, Workload>,
    /// What pods use on disk.
    pub disk: Arc<DiskView>,
}

/// The response for `snapshot`; CPU rates are computed relative to the earlier reading `before`.
pub fn summary(snapshot: &Snapshot, before: &Readings, sources: &Sources) -> Summary {
    let now = Readings::of(snapshot);
    let groups: Vec<_> = current(&snapshot.groups).into_iter().filter(|g| g.removed.is_none()).collect();
    let rate = |group: &GroupView| before.group_rate(&now, &group.path);
    Summary {
        node: node(
            &snapshot.machine,
            snapshot.time,
            before.node_rate(&now),
            (system_containers(&groups, &sources.system, &rate), disk::runtime(&sources.disk)),
        ),
        pods: pods(&groups, &rate, sources, snapshot.time),
    }
}

impl Summary {
    /// The kubelet's response to `?only_cpu_and_memory=true`: CPU, memory and swap of the node, pods and
    /// containers.
    pub fn only_cpu_and_memory(mut self) -> Self {
        let node = &mut self.node;
        (node.io, node.network, node.fs, node.rlimit) = (None, None, None, None);
        node.runtime = None;
        for pod in &mut self.pods {
            (pod.io, pod.network, pod.ephemeral_storage, pod.process_stats) = (None, None, None, None);
            pod.volume.clear();
        }
        let containers = self.pods.iter_mut().flat_map(|p| &mut p.containers);
        for container in containers.chain(&mut node.system_containers) {
            (container.io, container.rootfs, container.logs) = (None, None, None);
        }
        self
    }
}

type Rate<'a> = dyn Fn(&GroupView) -> Option<u64> + 'a;

fn node(
    machine: &Machine,
    read: SystemTime,
    rate: Option<u64>,
    (system_containers, runtime): (Vec<ContainerStats>, Option<RuntimeStats>),
) -> NodeStats {
    let usage = &machine.usage;
    let swap_available = |used: u64| Some(machine.swap_bytes.saturating_sub(used));
    NodeStats {
        node_name: machine.node_name.clone(),
        system_containers,
        start_time: machine.boot_time.and_then(time),
        cpu: cpu(usage, rate),
        memory: memory(usage, |_| machine.memory_available_bytes),
        io: io(usage),
        network: time(read).and_then(|t| network(&machine.interfaces, t)),
        fs: time(read).and_then(|time| {
            let fs = machine.fs?;
            Some(FsStats {
                time,
                available_bytes: Some(fs.available_bytes),
                capacity_bytes: Some(fs.capacity_bytes),
                used_bytes: Some(fs.used_bytes),
                inodes_free: Some(fs.inodes_free),
                inodes: Some(fs.inodes),
                inodes_used: Some(fs.inodes.saturating_sub(fs.inodes_free)),
            })
        }),
        runtime,
        rlimit: time(read)
            .filter(|_| machine.max_pids.is_some() || machine.processes.is_some())
            .map(|time| RlimitStats { time, maxpid: machine.max_pids, curproc: machine.processes }),
        swap: swap(usage, swap_available),
    }
}

/// `pods` is the level above all pods; the others are where their processes are (kubelet `GetCgroupStats` of
/// `nodeConfig.KubeletCgroupsName`, `RuntimeCgroupsName` and `SystemCgroupsName`). One that is not known, or
/// has no cgroup of its own, is left out.
fn system_containers(groups: &[&GroupView], system: &SystemCgroups, rate: &Rate<'_>) -> Vec<ContainerStats> {
    let at = |path: &Option<String>| {
        let path = path.as_deref()?;
        groups.iter().find(|group| &*group.path == path && *group.identity != Identity::Root)
    };
    let pods = groups.iter().find(|g| *g.identity == Identity::Kubepods);
    [
        ("kubelet", at(&system.kubelet)),
        ("runtime", at(&system.runtime)),
        ("misc", at(&system.misc)),
        ("pods", pods),
    ]
    .into_iter()
    .filter_map(|(name, group)| Some(container(name, group?, rate(group?))))
    .collect()
}

fn pods(groups: &[&GroupView], rate: &Rate<'_>, sources: &Sources, read: SystemTime) -> Vec<PodStats> {
    let names = Names::of(groups.iter().copied());
    let mut pods: Vec<PodStats> = Vec::new();
    let mut place: HashMap<&str, usize> = HashMap::new();
    for group in groups {
        if let Identity::Pod { uid, .. } = &*group.identity {
            let named = names.pod(uid).cloned().unwrap_or_default();
            let workload = sources.workloads.get(uid);
            let interfaces = workload.map(|workload| workload.interfaces.as_slice()).unwrap_or_default();
            place.insert(uid, pods.len());
            pods.push(PodStats {
                pod_ref: PodReference { name: named.name, namespace: named.namespace, uid: uid.clone() },
                start_time: time(group.created),
                containers: Vec::new(),
                cpu: cpu(&group.usage, rate(group)),
                memory: memory(&group.usage, limit_left(&group.usage)),
                io: io(&group.usage),
                swap: swap(&group.usage, swap_left(&group.usage)),
                network: time(read).and_then(|time| network(interfaces, time)),
                volume: disk::volumes(&sources.disk, uid),
                ephemeral_storage: disk::ephemeral_storage(&sources.disk, uid),
                process_stats: workload
                    .and_then(|workload| workload.processes)
                    .map(|process_count| ProcessStats { process_count }),
            });
        }
    }
    // If several cgroups have the same container name, the youngest one is used.
    let mut youngest: HashMap<(usize, &str), &GroupView> = HashMap::new();
    let mut order = Vec::new();
    for group in groups {
        if let Identity::Container { pod_uid, id, sandbox: false, .. } = &*group.identity
            && let Some(&pod) = place.get(&**pod_uid)
        {
            let key = (pod, names.container(id).unwrap_or(id));
            match youngest.get(&key) {
                Some(known) if !succeeds(group, known) => {}
                Some(_) => drop(youngest.insert(key, group)),
                None => {
                    youngest.insert(key, group);
                    order.push(key);
                }
            }
        }
    }
    for key @ (pod, name) in order {
        if let Some(group) = youngest.get(&key) {
            let (rootfs, logs) = disk::container(&sources.disk, &pods[pod].pod_ref.uid, name);
            let own = container(name, group, rate(group));
            pods[pod].containers.push(ContainerStats { rootfs, logs, ..own });
        }
    }
    pods
}

fn container(name: &str, group: &GroupView, rate: Option<u64>) -> ContainerStats {
    let usage = &group.usage;
    ContainerStats {
        name: name.to_owned(),
        start_time: time(group.created),
        cpu: cpu(usage, rate),
        memory: memory(usage, limit_left(usage)),
        io: io(usage),
        swap: swap(usage, swap_left(usage)),
        rootfs: None,
        logs: None,
    }
}

fn time(time: SystemTime) -> Option<Time> {
    jiff::Timestamp::try_from(time).ok().map(Time)
}

fn cpu(usage: &Usage, rate: Option<u64>) -> Option<CpuStats> {
    Some(CpuStats {
        time: time(usage.time?)?,
        usage_nano_cores: rate,
        usage_core_nano_seconds: usage.cpu.as_ref()?.usage_ns,
        psi: psi(usage.pressures.cpu),
    })
}

/// `cadvisorInfoToCPUandMemoryStats`: available is the limit − working set, unknown without a limit.
fn limit_left(usage: &Usage) -> impl Fn(u64) -> Option<u64> {
    let limit = usage.memory.as_ref().and_then(|m| m.limit_bytes);
    move |working_set| Some(limit?.saturating_sub(working_set))
}

/// `cadvisorInfoToSwapStats`: available is the swap limit − swap in use, unknown without a limit.
fn swap_left(usage: &Usage) -> impl Fn(u64) -> Option<u64> {
    let limit = usage.memory.as_ref().and_then(|m| m.swap_limit_bytes);
    move |used| Some(limit?.saturating_sub(used))
}

fn memory(usage: &Usage, available: impl Fn(u64) -> Option<u64>) -> Option<MemoryStats> {
    let memory = usage.memory.as_ref()?;
    Some(MemoryStats {
        time: time(usage.time?)?,
        available_bytes: available(memory.working_set_bytes),
        usage_bytes: memory.usage_bytes,
        working_set_bytes: memory.working_set_bytes,
        rss_bytes: memory.rss_bytes,
        page_faults: memory.page_faults,
        major_page_faults: memory.major_page_faults,
        psi: psi(usage.pressures.memory),
    })
}

fn io(usage: &Usage) -> Option<IoStats> {
    Some(IoStats { time: time(usage.time?)?, psi: Some(psi(usage.pressures.io)?) })
}

fn swap(usage: &Usage, available: impl Fn(u64) -> Option<u64>) -> Option<SwapStats> {
    let used = usage.memory.as_ref()?.swap_bytes?;
    Some(SwapStats {
        time: time(usage.time?)?,
        swap_available_bytes: available(used),
        swap_usage_bytes: used,
    })
}

fn psi(pressure: Option<Pressure>) -> Option<PsiStats> {
    let data = |line: PressureLine| PsiData {
        total: line.total_us.saturating_mul(1_000),
        avg10: line.avg10,
        avg60: line.avg60,
        avg300: line.avg300,
    };
    pressure.map(|p| PsiStats { full: p.full.map(data), some: data(p.some) })
}

fn network(interfaces: &[Interface], time: Time) -> Option<NetworkStats> {
    let stats: Vec<InterfaceStats> = interfaces
        .iter()
        .filter(|i| !IGNORED_INTERFACES.iter().any(|prefix| i.name.starts_with(prefix)))
        .map(|i| InterfaceStats {
            name: i.name.clone(),
            rx_bytes: Some(i.rx_bytes),
            rx_errors: Some(i.rx_errors),
            tx_bytes: Some(i.tx_bytes),
            tx_errors: Some(i.tx_errors),
        })
        .collect();
    let default = stats.iter().find(|i| i.name == DEFAULT_INTERFACE).cloned().unwrap_or_default();
    (!stats.is_empty()).then_some(NetworkStats { time, default, interfaces: stats })
}

#[cfg(test)]
mod tests;
