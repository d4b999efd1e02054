//! Eviction: which pods end, and in which order, when the node runs out of memory, disk space, inodes or
//! processes.
//!
//! Decisions are made on plain values (`types`): `assess` finds the thresholds that are passed and the node
//! conditions that follow, `rank` orders the pods, `choose` decides whether the first is certain, `limits`
//! finds pods beyond a limit of their own. `gather` reads those values in the same pass, whenever `wake` or
//! the timer asks for it; `usage` counts what pods have on disk, in turns; [`engine`] puts it together.
//! Decisions are stored by `history` and counted by [`metrics`].

#![deny(missing_docs)]

mod assess;
mod choose;
pub mod engine;
mod gather;
mod history;
pub mod kill;
mod limits;
mod message;
pub mod metrics;
mod order;
mod pace;
mod rank;
mod types;
mod usage;
mod wake;

#[cfg(feature = "testing")]
pub use usage::fixture;

pub use gather::Subject;
pub use history::History;
pub use message::NODE_LOW;
pub use order::{Eviction, EvictionReason};
pub(crate) use types::{
    Candidate, ContainerUse, DiskLayout, DiskUse, Observations, Observed, PodDisk, RequiredStats, UsedOf,
};
pub use types::{NodeCondition, Pressure};
pub use wake::{Waker, Wakeups};
