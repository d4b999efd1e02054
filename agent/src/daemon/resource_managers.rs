//! The managers of CPUs, memory and topology, whose events go into the journal.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use super::context::Context;
use nodewarden_config::{Config, ResourceManagerSettings};
use nodewarden_hierarchy::PodCgroupStates;
use nodewarden_machine::node::Capacity;
use nodewarden_machine::node::gather::Sources;
use nodewarden_model::{
    ContainerMemory, CpuMapView, CpuOwner, CpuOwners, CpuPlace, Detail, DeviceOwner, NodeMemory, PodView,
};
use nodewarden_qos::allocatable::reservation;
use nodewarden_resource_managers::{CpuMap, ManagerError, Owner, Reservation, ResourceManagers};
use nodewarden_tasks::parts;
use nodewarden_topology::{Cpu, CpuTopology, Machine, NumaNode};

/// The cgroups of pods by uid, as the hierarchy reports them.
type Places = watch::Receiver<Arc<PodCgroupStates>>;

/// How long the task that follows owners may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// Where the kernel shows CPUs and NUMA nodes.
const SYSTEM: &str = "/sys/devices/system";

/// Starts the managers with what an earlier agent or a kubelet has saved. `pods`: uids of the pods that an
/// earlier agent ran.
///
/// # Errors
/// A setting cannot be held on this machine.
pub fn start(
    context: Context<'_>,
    capacity: &Capacity,
    pods: BTreeSet<String>,
) -> Result<ResourceManagers, ManagerError> {
    let Context { config, runtime, journal, .. } = context;
    let keys = &config.node.managers;
    let journal = journal.clone();
    let events = Arc::new(move |event: nodewarden_resource_managers::ManagerEvent| {
        tracing::info!("{}: {}", event.reason, event.message);
        let detail = Detail::Agent { reason: event.reason.to_owned(), message: event.message };
        journal.append(Timestamp::now(), "", None, detail);
    });
    let reserved = Reservation(reservation(capacity, &config.node));
    let _runtime = runtime.enter();
    ResourceManagers::start(keys, reserved, machine(keys)?, &config.devices.kubelet_dir, pods, events)
}

/// Follows which CPUs containers have for themselves. The owner of a CPU is the container's pod: containers
/// of one pod may have the same CPU, one after the other.
pub fn follow_owners(
    context: Context<'_>,
    managers: &ResourceManagers,
    mut cgroups: Places,
) -> watch::Receiver<CpuOwners> {
    let (sender, owners) = watch::channel(CpuOwners::new());
    let managers = managers.clone();
    let mut changes = managers.changes();
    context.runtime.spawn(parts::register("owners of CPUs", LIMIT).task(async move {
        loop {
            changes.mark_unchanged();
            let places = cgroups.borrow_and_update().clone();
            let now = owners_of(&managers.map(), |uid| places.get(uid).map(|own| own.path.to_string()));
            sender.send_if_modified(|before| {
                let is_new = *before != now;
                *before = now;
                is_new
            });
            let ended = tokio::select! {
                changed = changes.changed() => changed.is_err(),
                changed = cgroups.changed() => changed.is_err(),
            };
            if ended {
                // The agent ends.
                return std::future::pending().await;
            }
        }
    }));
    owners
}

/// Whose each exclusive CPU is. `cgroup`: the cgroup of the pod with this uid.
fn owners_of(map: &CpuMap, cgroup: impl Fn(&str) -> Option<String>) -> CpuOwners {
    let mut owners = CpuOwners::new();
    for (owner, cpus) in &map.owners {
        let Some(cgroup) = cgroup(&owner.uid) else { continue };
        let own = CpuOwner { uid: owner.uid.clone(), container: owner.container.clone(), cgroup };
        owners.extend(cpus.iter().map(|cpu| (cpu, own.clone())));
    }
    owners
}

/// What `nodewarden cpus` shows; `pods` are only used for names.
pub fn view(managers: &ResourceManagers, pods: &[Arc<PodView>]) -> CpuMapView {
    let map = managers.map();
    let named = |owner: &Owner| {
        let pod = pods.iter().find(|view| view.pod.uid == owner.uid).map(|view| &view.pod);
        DeviceOwner {
            uid: owner.uid.clone(),
            namespace: pod.map(|pod| pod.namespace.clone()).unwrap_or_default(),
            name: pod.map(|pod| pod.name.clone()).unwrap_or_default(),
            container: owner.container.clone(),
        }
    };
    let place = |own: &Cpu| CpuPlace {
        cpu: own.cpu,
        core: own.core,
        socket: own.socket,
        node: own.node,
        cache: own.cache,
        reserved: map.reserved.contains(own.cpu),
        shared: map.shared.contains(own.cpu),
        owners: map
            .owners
            .iter()
            .filter(|(_, cpus)| cpus.contains(own.cpu))
            .map(|(own, _)| named(own))
            .collect(),
    };
    let allocatable = |node: u32| {
        let blocks =
            map.allocatable_memory.iter().filter(|own| own.nodes == [node] && own.resource == "memory");
        blocks.map(|own| own.size).sum()
    };
    let node = |own: &NumaNode| NodeMemory {
        node: own.id,
        total_bytes: own.memory_bytes,
        allocatable_bytes: allocatable(own.id),
    };
    let memory = map.memory.iter().flat_map(|(owner, blocks)| {
        let owner = named(owner);
        blocks.iter().map(move |own| ContainerMemory {
            owner: owner.clone(),
            resource: own.resource.clone(),
            bytes: own.size,
            nodes: own.nodes.clone(),
        })
    });
    CpuMapView {
        cpu_policy: map.cpu_policy.to_owned(),
        memory_policy: map.memory_policy.to_owned(),
        topology_policy: map.topology_policy.clone(),
        cpus: map.cpus.iter().map(place).collect(),
        nodes: map.nodes.iter().map(node).collect(),
        memory: memory.collect(),
    }
}

/// Checks the settings for this machine, as [`start`] does. What of the machine cannot be read is not
/// checked.
///
/// # Errors
/// A setting cannot be held on this machine.
pub fn check(config: &Config) -> Result<(), ManagerError> {
    let keys = &config.node.managers;
    let Ok(capacity) = Sources::default().capacity(None) else { return Ok(()) };
    let reserved = Reservation(reservation(&capacity, &config.node));
    nodewarden_resource_managers::check(keys, &reserved, &machine(keys)?)
}

/// The machine's CPUs and NUMA nodes. Without a policy that needs them, they may be unknown.
fn machine(keys: &ResourceManagerSettings) -> Result<Machine, ManagerError> {
    match nodewarden_topology::read(Path::new(SYSTEM)) {
        Ok(machine) => Ok(machine),
        Err(error)
            if !keys.has_static_cpus() && !keys.has_static_memory() && keys.topology_policy == "none" =>
        {
            warn!("{error}: CPUs and NUMA nodes are not shown");
            Ok(Machine { cpus: CpuTopology::new([]), nodes: Vec::new() })
        }
        Err(error) => Err(error.into()),
    }
}
