//! The managers of CPUs, memory and topology on this machine: what a pod gets together or not at all, which
//! state outlives the agent, and which CPUs every running container should have.
//!
//! The decisions are those of `nodewarden-cpus`, `nodewarden-memory-blocks` and `nodewarden-topology`; `node`
//! joins them into one value. [`ResourceManagers`] puts a lock around it, asks device plugins, and keeps the
//! state files in the kubelet's format (`state_files`).

#![deny(missing_docs)]

mod admission;
mod error;
mod map;
mod node;
mod running;
mod settings;
mod shared;
mod state_files;

pub use admission::{Granted, Refused};
pub use error::ManagerError;
pub use map::{CpuMap, Owner};
pub use running::CpusetUpdate;
pub use settings::{Reservation, check};
pub use shared::{EventSink, ManagerEvent, Placement, ResourceManagers};
