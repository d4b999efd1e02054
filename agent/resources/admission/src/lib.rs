//! Admission: whether a pod may start on this node now, and which pods are preempted for a critical one.
//!
//! A pod's requests (`amounts`, `ports`, `selector`, `toleration`) are compared with what is available
//! (`check`); what is missing for a critical pod is taken from others (`preempt`). Which pods hold resources
//! and which wait is a plain value (`queue`). [`Admission`] puts a lock around it, so that two pods never
//! take the last of a resource, and wakes pods that can start.
//!
//! The kubelet rejects a pod for good, since a scheduler creates another one elsewhere. Here the pod waits
//! and starts when resources are free: by priority, then in order of arrival. A pod that does not fit does
//! not block those behind it; only what the victims of a critical pod release is reserved for that pod. A
//! running pod that requests more (`growth`) keeps what it has until there is room.

#![deny(missing_docs)]

mod admission;
pub mod amounts;
mod check;
mod explain;
mod growth;
mod ports;
mod preempt;
mod queue;
mod refusal;
mod selector;
mod toleration;

pub use admission::{Admission, AdmissionState, Deps, Evict, Extended, Waiter, WaitingPod};
pub use amounts::Amounts;
pub use explain::Explain;
pub use growth::NoGrowth;
pub use queue::{Facts, Node, Why};
pub use refusal::Refusal;
pub use selector::node_labels;
pub use toleration::{NoExecuteTaint, no_execute};
