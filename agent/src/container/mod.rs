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
mod expansion;
mod field;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod grace;
pub mod hooks;
mod host;
mod hostname;
mod hosts;
pub mod labels;
mod mounts;
mod paths;
mod ports;
mod resource_field;
mod resources;
mod sandbox;
mod seccomp;
mod security;
mod signal;

pub use config::{Beginning, container_config};
pub use error::{FieldError, RecursiveReadOnlyFault, SpecError};
pub(crate) use expansion::expand;
pub(crate) use field::{is_volume_field, pod_field, subscript};
pub use grace::grace;
pub use hooks::{Exec, Executed, Handler, HookError, post_start, pre_stop, run_hook};
pub use host::Host;
pub use hosts::write_hosts;
pub use labels::OWNER;
pub use paths::{PodPaths, empty_dir};
pub(crate) use ports::resolve as resolve_port;
pub(crate) use resource_field::resource_value;
pub use resources::{container_resources, resources};
pub(crate) use sandbox::dotted;
pub use sandbox::{sandbox_config, warnings};
pub(crate) use signal::signal;

use k8s_openapi::api::core::v1;

use crate::pod::{Container, Pod};

/// A container by its name: as the manifest has it, and what it asks for.
pub(crate) fn find<'a>(pod: &'a Pod, name: &str) -> Option<(&'a v1::Container, &'a Container)> {
    let init = pod.spec.init_containers.iter().flatten().zip(&pod.init_containers);
    init.chain(pod.spec.containers.iter().zip(&pod.containers)).find(|(manifest, _)| manifest.name == name)
}

/// All containers of the manifest, init containers first.
pub(crate) fn all(pod: &Pod) -> impl Iterator<Item = &v1::Container> {
    pod.spec.init_containers.iter().flatten().chain(&pod.spec.containers)
}
