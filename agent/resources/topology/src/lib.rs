//! The machine's CPUs, caches and NUMA nodes, and what follows from them for a pod as a whole:
//!
//! - [`CpuTopology`] and [`Machine`]: the CPUs with core, socket, NUMA node and level 3 cache, and the NUMA
//!   nodes with their memory, huge pages and distances, read from sysfs.
//! - [`Hint`], [`Merger`]: the NUMA nodes from which a container could have a resource, and the best ones for
//!   all of its resources, as the kubelet's topology manager merges them (`pkg/kubelet/cm/topologymanager`).
//! - [`admit()`]: asks every [`Provider`] of resources, merges, and lets each allocate.

#![deny(missing_docs)]

pub mod admit;
mod cpus;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod golden;
mod hint;
mod merge;
mod node_set;
mod nodes;
mod policy;
mod reachable;
mod sysfs;

pub use admit::{AllocateError, Allocated, Provider, Rejection, admit};
pub use cpus::{Cpu, CpuTopology, Unit};
pub use hint::{Hint, Hints};
pub use merge::{Merged, Merger};
pub use node_set::{NodeSet, NodeSums};
pub use nodes::{Distances, HugePages, Machine, NumaNode};
pub use policy::{Policy, PolicyError, Scope, Settings, go_bool};
pub use sysfs::{SysfsError, read};
