//! Translates a pod's manifest into the CRI configurations of its sandbox and containers.
//!
//! - `PodPaths`: paths of a pod's files.
//! - [`Host`]: the facts about the node that the configurations depend on.
//! - [`sandbox_config`]: the pod's sandbox. [`warnings`]: events about differences from the manifest.
//! - [`plan_container`]: one container, and the [`ContainerFiles`] that are mounted into it.
//! - `resources`, [`container_resources`]: limits, for the start and for an in-place resize.
//! - [`post_start`], [`pre_stop`], [`run_hook`]: lifecycle hooks. `grace`: the termination grace period.
//!
//! All functions are pure, except those that write files ([`ContainerFiles`], [`write_hosts`]) and the hooks.

mod config;
pub mod dns;
mod env;
mod error;
mod field;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod hooks;
mod host;
mod hostname;
mod hosts;
mod injection;
pub mod labels;
mod mounts;
mod ownership;
mod ports;
mod resources;
mod sandbox;
mod seccomp;
mod security;

pub use config::{Beginning, plan_container, skipped_variables};
pub use error::{RecursiveReadOnlyFault, SpecError};
pub use files::ContainerFiles;
pub use hooks::{Exec, Executed, Handler, HookError, post_start, pre_stop, run_hook};
pub use host::Host;
pub use hosts::write_hosts;
pub use injection::{DEVICES, DeviceInjection, ids_from_json};
pub use labels::OWNER;
pub use ownership::{Ownership, is_kubelets};
pub use resources::{container_resources, resources};
pub use sandbox::{sandbox_config, warnings};
pub use security::masked_paths;
