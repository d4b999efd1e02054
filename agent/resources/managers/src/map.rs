//! Which CPU is whose: sockets, NUMA nodes, cores, and the containers that have CPUs for themselves.

use std::collections::BTreeMap;

use nodewarden_devices::pod_resources::MemoryBlock;
use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_memory_blocks::Block;
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
    /// `none`, `best-effort`, `restricted` or `single-numa-node`.
    pub topology_policy: String,
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
    /// Memory by container, where it comes from chosen NUMA nodes.
    pub memory: BTreeMap<Owner, Vec<MemoryBlock>>,
    /// Memory that can be given to containers, one block for each NUMA node and type; none without the
    /// policy.
    pub allocatable_memory: Vec<MemoryBlock>,
}

impl CpuMap {
    /// CPUs that containers can have for themselves, in order; none without the policy (kubelet
    /// `GetAllocatableCPUs`).
    pub fn allocatable_cpus(&self) -> Vec<u32> {
        let all = self.cpus.iter().map(|cpu| cpu.cpu);
        all.filter(|cpu| self.cpu_policy == "static" && !self.reserved.contains(*cpu)).collect()
    }

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
                let block = |own: &Block| MemoryBlock {
                    resource: own.resource.clone(),
                    size: own.size,
                    nodes: own.nodes.iter().collect(),
                };
                (owner(uid, name), blocks.iter().map(block).collect())
            })
        });
        let is_static = memory.settings().policy == nodewarden_memory_blocks::Policy::Static;
        let nodes = memory.machine().0.iter().filter(|_| is_static);
        let tables = nodes.flat_map(|(node, state)| {
            state.memory.iter().map(|(name, table)| MemoryBlock {
                resource: name.clone(),
                size: table.allocatable,
                nodes: vec![*node],
            })
        });
        Self {
            cpu_policy: cpus.settings().policy.name(),
            memory_policy: memory.settings().policy.name(),
            topology_policy: managers.topology_policy().to_owned(),
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
