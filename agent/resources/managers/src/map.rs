//! Which CPU is whose: sockets, NUMA nodes, cores, and the containers that have CPUs for themselves.

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::{Cpu, NumaNode};

use crate::node::Managers;

/// A container that has CPUs for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Uid of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
}

/// The CPUs of the machine and whose they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuMap {
    /// `none` or `static`.
    pub cpu_policy: &'static str,
    /// `None` or `Static`.
    pub memory_policy: &'static str,
    /// Every CPU that is online, with core, socket, NUMA node and level 3 cache.
    pub cpus: Vec<Cpu>,
    /// The NUMA nodes.
    pub nodes: Vec<NumaNode>,
    /// CPUs that are never given to a container alone.
    pub reserved: CpuSet,
    /// CPUs of containers that have none for themselves.
    pub shared: CpuSet,
    /// The CPUs of containers that have some for themselves; of a pod several containers may have the same.
    pub owners: BTreeMap<Owner, CpuSet>,
    /// Memory by container: NUMA nodes, type and bytes.
    pub memory: BTreeMap<Owner, Vec<(String, String, u64)>>,
    /// Memory that can be given to containers, by NUMA node: type and bytes.
    pub allocatable_memory: BTreeMap<u32, Vec<(String, u64)>>,
}

impl CpuMap {
    pub(crate) fn of(managers: &Managers) -> Self {
        let (cpus, memory) = (&managers.cpus, &managers.memory);
        let topology = cpus.topology();
        let owner =
            |uid: &String, container: &String| Owner { uid: uid.clone(), container: container.clone() };
        let owners = cpus.assignments().containers.iter().flat_map(|(uid, containers)| {
            containers.iter().map(move |(name, cpus)| (owner(uid, name), cpus.clone()))
        });
        let blocks = memory.blocks().containers.iter().flat_map(|(uid, containers)| {
            containers.iter().map(move |(name, blocks)| {
                let blocks = blocks.iter().map(|own| (own.nodes.to_string(), own.resource.clone(), own.size));
                (owner(uid, name), blocks.collect())
            })
        });
        let tables = memory.machine().0.iter().map(|(node, state)| {
            (*node, state.memory.iter().map(|(name, table)| (name.clone(), table.allocatable)).collect())
        });
        Self {
            cpu_policy: cpus.settings().policy.name(),
            memory_policy: memory.settings().policy.name(),
            cpus: topology.all().iter().filter_map(|cpu| topology.cpu(cpu).copied()).collect(),
            nodes: managers.machine().nodes.clone(),
            reserved: cpus.settings().reserved.clone(),
            shared: cpus.shared(),
            owners: owners.collect(),
            memory: blocks.collect(),
            allocatable_memory: tables.collect(),
        }
    }
}
