//! The probes of a pod's containers: starts and ends them, and takes over their results.
//!
//! A result is published once it is on disk, so that everything that was shown is known again after a restart
//! of the agent. Decisions and the pod's status know probes only by what is
//! [`Published`](crate::decide::published::Published).

mod follow;
mod sink;
#[cfg(test)]
pub(super) mod tests;

pub use follow::{alive, ended, exited, follow, forget, stop};
