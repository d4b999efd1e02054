//! `/metrics`: what the kernel programs counted for each cgroup, and the agent itself.
//!
//! - The counters are of the cgroup itself, without its children, so they may be summed over any selection.
//! - A topic that never counted anything for a cgroup is left out there: a pod's own cgroup has no task that could
//!   switch, and 28 lines of an empty histogram say nothing. OOM kills are the exception: the first kill must
//!   show as an increase, so their zero stands.
//! - Pressure is in `/metrics/cadvisor` (`container_pressure_*`) and not repeated here.

mod agent;
mod cgroup;
mod devices;
mod hierarchy;
mod names;
mod pods;

pub use names::Own;

use std::sync::Arc;

use super::exposition::Exposition;
use crate::view::{DevicesView, PodView, Snapshot, Status};

/// Writes the whole document but the families of [`Own::FACADE`].
pub fn write(
    out: &mut Exposition<'_>,
    snapshot: &Snapshot,
    status: &Status,
    pods: &[Arc<PodView>],
    devices: &DevicesView,
) {
    agent::write(out, status);
    if let Some(hierarchy) = &status.hierarchy {
        hierarchy::write(out, hierarchy);
        pods::write(out, pods, &status.device_denials);
        devices::write(out, devices);
    }
    cgroup::write(out, snapshot);
}

#[cfg(test)]
mod tests;
