//! What the end-to-end tests and benches share: a harness of their own, fixtures that make and clean up real
//! cgroups and processes, the worker processes that play the workload, and the servers that are probed.
//!
//! Everything is reached through binaries, `nodewarden-e2e`, `nodewarden-bench` and `nodewarden-stage`, that need
//! neither cargo nor this source tree when they run: the same files run on the host and inside virtual machines. There
//! `nodewarden-guest` starts them.

pub mod bench;
pub mod e2e;
pub mod fixture;
pub mod guest;
pub mod harness;
pub mod serve;
pub mod soak;
pub mod stage;
pub mod worker;
