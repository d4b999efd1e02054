//! Eviction: when the node runs out of memory, disk, inodes or processes, who goes, and in which order.
//!
//! Decided on plain values ([`types`]): [`assess`] says which thresholds are passed and which conditions that makes,
//! [`rank`] orders the pods; [`limits`] says who is beyond a limit of its own. What they are decided on is read by [`gather`] in the same turn, whenever [`wake`] or the
//! timer says so; [`engine`] puts it together. What was decided is kept by [`history`], and counted by [`told`].

pub mod assess;
pub mod engine;
pub mod gather;
pub mod history;
pub mod kill;
pub mod limits;
pub mod message;
mod order;
pub mod pace;
pub mod rank;
pub mod told;
pub mod types;
pub mod wake;

pub use history::History;
pub use order::{EVICTED, Eviction};
pub use types::{
    Candidate, ContainerUse, DiskLayout, DiskUse, Needs, NodeCondition, Observations, Observed, PodDisk,
    Pressure,
};
