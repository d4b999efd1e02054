//! From a pod's manifest to what a container runtime is told.
//!
//! - [`PodPaths`]: where a pod's files are.
//! - [`Host`]: what of the node goes into that.
//! - [`sandbox_config`]: the pod's sandbox. [`warnings`]: what its author should know of it.
//! - [`container_config`]: one container; makes the files that are mounted into it.
//! - [`resources`], [`container_resources`]: limits, as they are told at the start and at an in-place resize.
//! - [`post_start`], [`pre_stop`], [`run_hook`]: lifecycle hooks. [`grace`]: how long an end may take.
//!
//! Everything is a function of plain values but for the files ([`container_config`], [`write_hosts`]) and the hooks.

mod config;
pub mod dns;
mod env;
mod error;
mod field;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
pub mod hooks;
mod host;
mod hostname;
mod hosts;
pub mod injection;
pub mod labels;
mod mounts;
mod ports;
mod resources;
mod sandbox;
mod seccomp;
mod security;

pub use config::{Beginning, container_config};
pub use error::{RecursiveReadOnlyFault, SpecError};
pub use hooks::{Exec, Executed, Handler, HookError, post_start, pre_stop, run_hook};
pub use host::Host;
pub use hosts::write_hosts;
pub use injection::{DEVICES, DeviceInjection, ids_from_json};
pub use labels::OWNER;
pub use resources::{container_resources, resources};
pub use sandbox::{sandbox_config, warnings};
