//! Settings that the managers cannot work with on this machine.

use nodewarden_cpus::SettingsError as CpuSettingsError;
use nodewarden_memory_blocks::SettingsError as MemorySettingsError;
use nodewarden_topology::{PolicyError, SysfsError};

/// Why the managers cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The machine's CPUs and NUMA nodes cannot be read.
    #[error("the machine's CPUs and NUMA nodes are not known: {0}")]
    Machine(#[from] SysfsError),
    /// A setting of the CPU manager.
    #[error("{key}: {0}", key = cpu_key(.0))]
    Cpus(#[from] CpuSettingsError),
    /// A setting of the memory manager.
    #[error("{key}: {0}", key = memory_key(.0))]
    Memory(#[from] MemorySettingsError),
    /// A setting of the topology manager.
    #[error("{key}: {0}", key = topology_key(.0))]
    Topology(#[from] PolicyError),
}

fn cpu_key(error: &CpuSettingsError) -> &'static str {
    match error {
        CpuSettingsError::Policy(_) | CpuSettingsError::NothingReserved => "cpuManagerPolicy",
        CpuSettingsError::Option(_)
        | CpuSettingsError::Gate { .. }
        | CpuSettingsError::Bool { .. }
        | CpuSettingsError::Both(..)
        | CpuSettingsError::SingleNumaNode
        | CpuSettingsError::MoreSockets => "cpuManagerPolicyOptions",
        CpuSettingsError::Reserved { .. } => "reservedSystemCPUs",
    }
}

fn memory_key(error: &MemorySettingsError) -> &'static str {
    match error {
        MemorySettingsError::Policy(_) | MemorySettingsError::WindowsOnly => "memoryManagerPolicy",
        MemorySettingsError::NothingReserved
        | MemorySettingsError::NoSuchNode(_)
        | MemorySettingsError::Total { .. }
        | MemorySettingsError::MoreThanThere { .. } => "reservedMemory",
    }
}

fn topology_key(error: &PolicyError) -> &'static str {
    match error {
        PolicyError::Policy(_) | PolicyError::TooMany(_) => "topologyManagerPolicy",
        PolicyError::Scope(_) => "topologyManagerScope",
        PolicyError::Option(_)
        | PolicyError::Bool { .. }
        | PolicyError::Number { .. }
        | PolicyError::TooFew
        | PolicyError::Distances => "topologyManagerPolicyOptions",
    }
}
