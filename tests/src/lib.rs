//! The end-to-end tests and the benches, with what they share: a test harness, fixtures that create real
//! cgroups and processes and remove them again, worker processes that play the workload, and servers for
//! probes to ask.
//!
//! All of it runs through the binaries `nodewarden-e2e`, `nodewarden-bench` and `nodewarden-stage`. They need
//! neither cargo nor this source tree at run time, so the same files run on the host and in virtual machines,
//! where `nodewarden-guest` starts them.

pub mod bench;
pub mod conformance;
pub mod e2e;
pub mod fixture;
pub mod guest;
pub mod harness;
pub mod page;
pub mod serve;
pub mod soak;
pub mod stage;
pub mod worker;
