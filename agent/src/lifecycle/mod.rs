//! Pods made to run: a worker for each, which compares what the manifest wants with what the runtime has, decides
//! purely, and carries it out.
//!
//! - [`Observed`]: what the runtime has of one pod.
//! - [`Record`]: what of a pod must outlive the agent.
//! - [`Plan`]: what is to be done next.

mod observed;
mod plan;
mod record;

pub use observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
pub use plan::{Action, KillReason, Plan};
pub use record::{ContainerRecord, Ending, Record};
