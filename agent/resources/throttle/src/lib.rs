//! Throttling under pressure, before a pod has to be evicted: lower QoS levels are throttled while pods of
//! higher levels wait for CPU or memory is short, and released with hysteresis.
//!
//! `cpu` and `memory` decide, as functions of plain values and a time. `run` reads their input once a period,
//! overrides the levels' limits ([`nodewarden_hierarchy::HierarchyHandle::throttle`]) and writes each step
//! into the journal. Off unless configured; undone when it ends.

#![deny(missing_docs)]

mod controllers;
mod cpu;
mod error;
mod gather;
mod memory;
mod release_delay;
mod run;

pub use controllers::Machine;
pub use error::ThrottleError;
pub use gather::Waited;
pub use run::{Deps, Throttle, start};
