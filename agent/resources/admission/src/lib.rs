//! Admission: whether a pod may start on this node now, and which pods make way for a critical one.
//!
//! What a pod needs ([`amounts`], [`ports`], [`selector`]) is held against what is there ([`check`]); what is missing
//! for a critical pod is taken from others ([`preempt`]). Who holds what and who waits is a plain value ([`book`]).
//! [`Admission`] puts a lock around it, so that two pods never take the last of anything, and wakes those that can go on.
//!
//! A kubelet refuses a pod once and for all, since a scheduler sends another one elsewhere. Here it waits, and goes on
//! when something is free: by priority, then in the order in which the pods came. One that does not fit holds up nobody
//! behind it; only what the victims of a critical pod give back is kept for that pod. A pod that runs and wants more
//! ([`growth`]) keeps what it has until there is room.

pub mod amounts;
pub mod book;
pub mod check;
mod explain;
mod growth;
mod ledger;
pub mod ports;
pub mod preempt;
pub mod refusal;
pub mod selector;

pub use amounts::Amounts;
pub use book::{Facts, Node, Why};
pub use explain::Explain;
pub use growth::NoGrowth;
pub use ledger::{Admission, Evict, Extended, Needs, Standing, Waiter, WaitingPod};
pub use refusal::Refusal;
