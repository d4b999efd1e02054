//! The machine's CPUs and NUMA nodes, and which container has what of them: what `nodewarden cpus` shows.

use crate::DeviceOwner;

/// The CPUs and NUMA nodes of the machine, and whose they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuMapView {
    /// `cpuManagerPolicy`.
    pub cpu_policy: String,
    /// `memoryManagerPolicy`.
    pub memory_policy: String,
    /// `topologyManagerPolicy`.
    pub topology_policy: String,
    /// Every CPU that is online, by number.
    pub cpus: Vec<CpuPlace>,
    /// Every NUMA node, by number.
    pub nodes: Vec<NodeMemory>,
    /// Memory of containers that comes from chosen NUMA nodes.
    pub memory: Vec<ContainerMemory>,
}

/// A CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuPlace {
    /// Its number.
    pub cpu: u32,
    /// The lowest CPU of its core.
    pub core: u32,
    /// The number of its socket.
    pub socket: u32,
    /// The number of its NUMA node.
    pub node: u32,
    /// The lowest CPU that shares its level 3 cache.
    pub cache: u32,
    /// Whether it is never given to a container alone.
    pub reserved: bool,
    /// Whether containers without CPUs of their own run on it.
    pub shared: bool,
    /// The containers that have it for themselves: several only in one pod, one after the other.
    pub owners: Vec<DeviceOwner>,
}

/// The memory of a NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMemory {
    /// Its number.
    pub node: u32,
    /// What it has, in bytes.
    pub total_bytes: u64,
    /// What containers can be given of it, in bytes; 0 without the policy `Static`.
    pub allocatable_bytes: u64,
}

/// Memory of one type that a container has from chosen NUMA nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerMemory {
    /// Whose it is.
    pub owner: DeviceOwner,
    /// `memory` or `hugepages-2Mi`.
    pub resource: String,
    /// Bytes.
    pub bytes: u64,
    /// The NUMA nodes.
    pub nodes: Vec<u32>,
}
