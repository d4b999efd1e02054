//! From which NUMA nodes a container has its memory and huge pages, as the kubelet's memory manager decides
//! (`pkg/kubelet/cm/memorymanager`):
//!
//! - [`Settings`]: the policy, and the memory that is reserved on each NUMA node.
//! - [`MemoryManager`]: hints, allocations, removals, restoring.
//! - [`StateFile`]: the file `memory_manager_state` in the kubelet's format.
//!
//! Everything is a decision on plain values: no file is read or written here, and no cgroup changed.

#![deny(missing_docs)]

mod blocks;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod golden;
mod machine;
mod manager;
#[cfg(test)]
mod properties;
mod settings;
#[cfg(test)]
mod speed;
mod state_file;

pub use blocks::{Block, Blocks};
pub use error::{MemoryError, SettingsError};
pub use machine::{MachineState, NodeState, Reserved, Table};
pub use manager::{Finding, MemoryManager};
pub use settings::{Policy, Settings};
pub use state_file::{StateFile, StateFileError};

/// The name of ordinary memory among the resources.
pub(crate) const MEMORY: &str = "memory";

/// Whether a resource is memory or huge pages.
pub(crate) fn is_memory(resource: &str) -> bool {
    resource == MEMORY || nodewarden_manifest::names::is_hugepages(resource)
}
