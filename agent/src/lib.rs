//! nodewarden: a node agent that does what a kubelet does for a node's resources and is woken by the kernel.
//!
//! The rooms, each with one purpose (docs/ARCHITECTURE.md has the map):

pub mod api;
pub mod cgroup;
pub mod cli;
pub mod config;
pub mod journal;
pub mod kernel;
pub mod metrics;
pub mod runtime;
pub mod view;
pub mod watch;
