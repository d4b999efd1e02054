//! nodewarden: a node agent that does what a kubelet does for a node's resources and is woken by the kernel.
//!
//! The rooms, each with one purpose (docs/ARCHITECTURE.md has the map):

pub mod admission;
pub mod api;
pub mod cgroup;
pub mod cli;
pub mod config;
pub mod container;
pub mod devices;
pub mod eviction;
pub mod feedback;
pub mod gc;
#[cfg(test)]
mod golden;
pub mod http_get;
pub mod journal;
pub mod kept_file;
pub mod kernel;
pub mod lifecycle;
pub mod logs;
pub mod manage;
pub mod metrics;
pub mod node;
pub mod pod;
pub mod probes;
pub mod qos;
pub mod runtime;
pub mod source;
pub mod view;
pub mod volume;
pub mod watch;

/// Version of this build: `git describe` when `cargo xtask build` knows it, else the package's.
pub const VERSION: &str = match option_env!("NODEWARDEN_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
