//! The CPUs that are online, and the units that they belong to.

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;

use crate::NodeSet;

/// One CPU that is online, with the numbers of what it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Its core: the lowest number of a CPU in it.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA node.
    pub node: u32,
    /// Its level 3 cache.
    pub cache: u32,
}

/// A core, socket, NUMA node or level 3 cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its number.
    pub id: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// With how many free CPUs it counts as free: the number of its CPUs.
    pub size: usize,
}

/// The CPUs that are online. A value that does not change: after a CPU went offline there is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuTopology {
    cpus: BTreeMap<u32, Cpu>,
    all: CpuSet,
    /// Each in the order of the ids.
    cores: Vec<Unit>,
    sockets: Vec<Unit>,
    nodes: Vec<Unit>,
    caches: Vec<Unit>,
}

impl CpuTopology {
    /// The topology of these CPUs. Of several with the same number the last one counts.
    pub fn new(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        let cpus: BTreeMap<u32, Cpu> = cpus.into_iter().map(|cpu| (cpu.cpu, cpu)).collect();
        let units = |of: fn(&Cpu) -> u32| {
            let mut units: BTreeMap<u32, CpuSet> = BTreeMap::new();
            cpus.values().for_each(|cpu| units.entry(of(cpu)).or_default().insert(cpu.cpu));
            units.into_iter().map(|(id, cpus)| Unit { id, size: cpus.len(), cpus }).collect::<Vec<_>>()
        };
        Self {
            all: cpus.keys().copied().collect(),
            cores: units(|cpu| cpu.core),
            sockets: units(|cpu| cpu.socket),
            nodes: units(|cpu| cpu.node),
            caches: units(|cpu| cpu.cache),
            cpus,
        }
    }

    /// Every CPU.
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// What is known of a CPU; `None` if it is not online.
    pub fn cpu(&self, cpu: u32) -> Option<&Cpu> {
        self.cpus.get(&cpu)
    }

    /// The cores, by number.
    pub fn cores(&self) -> &[Unit] {
        &self.cores
    }

    /// The sockets, by number.
    pub fn sockets(&self) -> &[Unit] {
        &self.sockets
    }

    /// The NUMA nodes that have CPUs, by number.
    pub fn nodes(&self) -> &[Unit] {
        &self.nodes
    }

    /// The level 3 caches, by number.
    pub fn caches(&self) -> &[Unit] {
        &self.caches
    }

    /// The numbers of the NUMA nodes that have CPUs.
    pub fn node_set(&self) -> NodeSet {
        self.nodes.iter().map(|node| node.id).collect()
    }

    /// CPUs of a core, on average and rounded down, as the kubelet counts them (`CPUsPerCore`); at least 1.
    pub fn cpus_per_core(&self) -> usize {
        (self.cpus.len() / self.cores.len().max(1)).max(1)
    }

    /// CPUs of a level 3 cache, on average and rounded down (`CPUsPerUncore`); at least 1.
    pub fn cpus_per_cache(&self) -> usize {
        (self.cpus.len() / self.caches.len().max(1)).max(1)
    }

    /// The CPUs of every core that has a CPU in `cpus`.
    pub fn whole_cores(&self, cpus: &CpuSet) -> CpuSet {
        let touched = self.cores.iter().filter(|core| core.cpus.common(cpus) > 0);
        touched.fold(CpuSet::default(), |all, core| all.union(&core.cpus))
    }

    /// The CPUs of those cores of which every CPU is in `cpus`.
    pub fn only_whole_cores(&self, cpus: &CpuSet) -> CpuSet {
        let whole = self.cores.iter().filter(|core| core.cpus.is_subset(cpus));
        whole.fold(CpuSet::default(), |all, core| all.union(&core.cpus))
    }

    /// The CPUs of these NUMA nodes.
    pub fn cpus_of_nodes(&self, nodes: NodeSet) -> CpuSet {
        let chosen = self.nodes.iter().filter(|node| nodes.contains(node.id));
        chosen.fold(CpuSet::default(), |all, node| all.union(&node.cpus))
    }

    /// The sockets that have a CPU on one of these NUMA nodes, in order.
    pub fn sockets_of_nodes(&self, nodes: NodeSet) -> Vec<&Unit> {
        let cpus = self.cpus_of_nodes(nodes);
        self.sockets.iter().filter(|socket| socket.cpus.common(&cpus) > 0).collect()
    }

    /// The same with the kubelet's sizes of sockets and cores: the average of the machine, rounded down
    /// (`isSocketFree`, `isCoreFree`). With these a unit may count as free although some of its CPUs are not,
    /// which is a fault of the kubelet: this is for comparisons with its recorded answers.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_average_sizes(mut self) -> Self {
        let cpus = self.cpus.len();
        let (cores, sockets) = (cpus / self.cores.len().max(1), cpus / self.sockets.len().max(1));
        self.cores.iter_mut().for_each(|core| core.size = cores);
        self.sockets.iter_mut().for_each(|socket| socket.size = sockets);
        self
    }
}
