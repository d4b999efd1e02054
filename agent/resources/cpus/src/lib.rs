//! Which CPUs a container has for itself, as the kubelet's CPU manager decides (`pkg/kubelet/cm/cpumanager`):
//!
//! - [`packed`], [`distributed`]: chooses CPUs of a set of free ones, by sockets, NUMA nodes, caches and
//!   cores.
//! - [`CpuManager`]: the policies `none` and `static` with their options: hints, allocations, removals,
//!   restoring.
//! - [`StateFile`]: the file `cpu_manager_state` in the kubelet's format.
//!
//! Everything is a decision on plain values: no file is read or written here, and no cgroup changed.

#![deny(missing_docs)]

mod assign;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod golden;
mod manager;
mod policy;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod speed;
mod state_file;

pub use assign::{NotEnough, Sorting, distributed, packed};
pub use error::{CpuError, SettingsError};
pub use manager::{Assignments, CpuManager, Finding};
pub use policy::{Options, Policy, Settings};
pub use state_file::{StateFile, StateFileError};
