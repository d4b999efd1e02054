//! Decisions about pods: pure functions of what the manifests want, what the runtime has and what is on
//! record.

pub mod backoff;
pub mod deadline;
mod ends;
pub mod evicted;
pub mod grace;
pub mod identity;
pub mod observed;
pub mod phase;
pub mod plan;
pub mod policy;
pub mod published;
pub mod pull_policy;
pub mod relist;
pub mod resize;
pub mod shrink;
pub mod waiting;
