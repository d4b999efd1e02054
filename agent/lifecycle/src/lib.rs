//! Pods made to run: a worker for each, which compares what the manifest wants with what the runtime has, decides
//! purely, and carries it out.
//!
//! Decided in [`identity`] (which pods start, stay, are resized or end), [`plan`] (what is next for one pod, by
//! [`policy`], [`backoff`] and [`probing`]), [`resize`] and [`phase`] (how it is shown); seen in [`Observed`], kept in [`Record`] by
//! [`store`].
//!
//! Carried out from [`start`] on: the manager gives every pod its worker and looks after what no pod owns, a worker goes
//! on turn by turn, has its pod make way and come back ([`evicted`]), and the [`Board`] shows how the pods stand.

mod admitting;
mod away;
pub mod backoff;
mod containers;
pub mod counters;
mod devices;
mod environment;
mod evicted;
mod exits;
#[cfg(test)]
pub(crate) mod fixture;
mod housekeeping;
pub mod identity;
mod images;
mod kill;
mod look;
mod manager;
mod manifest;
mod observed;
pub mod phase;
mod places;
pub mod plan;
pub mod policy;
pub mod probing;
mod record;
pub mod resize;
mod resizing;
mod sandbox;
mod saver;
mod start;
mod state;
pub mod store;
mod terminate;
mod turn;
mod worker;

pub use environment::{Places, owner};
pub use evicted::Evicted;
pub use observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
pub use plan::{Action, KillReason, Plan};
pub use record::{ContainerRecord, Ending, OOM_KILLED, ProbeRecord, Record};
pub use start::{Adoption, Found, Lifecycle, Needs, find, homes, start};
