//! `/metrics`: what the kernel programs counted for each cgroup, and the agent itself.
//!
//! - The counters are of the cgroup itself, without its children, so they may be summed over any selection.
//! - A topic that never counted anything for a cgroup is left out there: a pod's own cgroup has no task that
//!   could switch, and 28 lines of an empty histogram are of no use. OOM kills are the exception: the first
//!   kill must show as an increase, so their zero is written.
//! - A probe that never ran has no counters and no histogram.
//! - Images are those of the last check, and left out before the first one.
//! - Node conditions and eviction signals are left out if the agent does not watch for pressure.
//! - Pressure stall information is in `/metrics/cadvisor` (`container_pressure_*`) and not repeated here.

mod agent;
mod cgroup;
mod devices;
mod exclusive_cpus;
mod hierarchy;
mod images;
mod names;
mod neighbours;
mod pods;
mod pressure;
mod probes;

pub use names::Own;

use std::sync::Arc;

use super::exposition::Exposition;
use nodewarden_model::{
    DevicesView, ExclusiveCpusView, ImagesView, PodView, PressureView, ProbesView, Snapshot, Status,
};

/// The input of a scrape, all of the same moment.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The machine and all cgroups.
    pub snapshot: &'a Snapshot,
    /// The state of the agent.
    pub status: &'a Status,
    /// The managed pods; empty in mode observe.
    pub pods: &'a [Arc<PodView>],
    /// Devices of plugins; empty in mode observe.
    pub devices: &'a DevicesView,
    /// Exclusive CPUs; empty in mode observe.
    pub exclusive_cpus: &'a ExclusiveCpusView,
    /// Probes of the managed pods; empty in mode observe.
    pub probes: &'a ProbesView,
    /// The images of the last check; `None` before the first one.
    pub images: Option<&'a ImagesView>,
    /// Node conditions and eviction signals; `None` if the agent does not watch for pressure.
    pub pressure: Option<&'a PressureView>,
}

/// Writes the whole document except the families of [`Own::FACADE`].
pub fn write(out: &mut Exposition<'_>, shown: Shown<'_>) {
    let status = shown.status;
    agent::write(out, status);
    if let Some(hierarchy) = &status.hierarchy {
        hierarchy::write(out, hierarchy);
        pods::write(out, shown.pods, &status.device_denials);
        pressure::waiting(out, shown.pods);
        devices::write(out, shown.devices);
        exclusive_cpus::write(out, shown.exclusive_cpus);
        probes::write(out, shown.probes);
    }
    if let Some(view) = shown.images {
        images::write(out, view);
    }
    if let Some(view) = shown.pressure {
        pressure::write(out, view);
    }
    cgroup::write(out, shown.snapshot);
    neighbours::write(out, shown.snapshot);
}

/// Writes the families about probes alone, as a kubelet's `/metrics/probes`.
pub fn write_probes(out: &mut Exposition<'_>, view: &ProbesView) {
    probes::write(out, view);
}

#[cfg(test)]
mod tests;
