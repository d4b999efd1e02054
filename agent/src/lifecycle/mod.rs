//! Pods made to run: a worker for each, which compares what the manifest wants with what the runtime has, decides
//! purely, and carries it out.
//!
//! - [`Observed`]: what the runtime has of one pod.
//! - [`Record`], [`store`]: what of a pod must outlive the agent.
//! - [`identity`]: which pods start, stay, are resized or end.
//! - [`plan`]: what is to be done next for one pod, by [`policy`] and [`backoff`].
//! - [`resize`]: what a changed manifest means for a pod that runs.
//! - [`phase`]: how it is shown.

pub mod backoff;
pub mod counters;
pub mod identity;
mod observed;
pub mod phase;
pub mod plan;
pub mod policy;
mod record;
pub mod resize;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;

pub use observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
pub use plan::{Action, KillReason, Plan};
pub use record::{ContainerRecord, Ending, OOM_KILLED, Record};
