//! The managers of CPUs, memory and topology, whose events go into the journal.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use tracing::warn;

use super::context::Context;
use nodewarden_config::ResourceManagerSettings;
use nodewarden_machine::node::Capacity;
use nodewarden_model::Detail;
use nodewarden_qos::allocatable::reservation;
use nodewarden_resource_managers::{ManagerError, Reservation, ResourceManagers};
use nodewarden_topology::{CpuTopology, Machine};

/// Where the kernel shows CPUs and NUMA nodes.
const SYSTEM: &str = "/sys/devices/system";

/// Starts the managers with what an earlier agent or a kubelet has saved. `pods`: uids of the pods that an earlier
/// agent ran.
///
/// # Errors
/// A setting cannot be held on this machine.
pub fn start(
    context: Context<'_>,
    capacity: &Capacity,
    pods: BTreeSet<String>,
) -> Result<ResourceManagers, ManagerError> {
    let Context { config, runtime, journal, .. } = context;
    let keys = &config.node.managers;
    let journal = journal.clone();
    let events = Arc::new(move |event: nodewarden_resource_managers::ManagerEvent| {
        tracing::info!("{}: {}", event.reason, event.message);
        let detail = Detail::Agent { reason: event.reason.to_owned(), message: event.message };
        journal.append(Timestamp::now(), "", None, detail);
    });
    let reserved = Reservation(reservation(capacity, &config.node));
    let _runtime = runtime.enter();
    ResourceManagers::start(keys, reserved, machine(keys)?, &config.devices.kubelet_dir, pods, events)
}

/// Checks the settings for this machine, as [`start`] does.
///
/// # Errors
/// A setting cannot be held on this machine.
pub fn check(config: &nodewarden_config::Config, capacity: &Capacity) -> Result<(), ManagerError> {
    let keys = &config.node.managers;
    nodewarden_resource_managers::check(
        keys,
        &Reservation(reservation(capacity, &config.node)),
        &machine(keys)?,
    )
}

/// The machine's CPUs and NUMA nodes. Without a policy that needs them, they may be unknown.
fn machine(keys: &ResourceManagerSettings) -> Result<Machine, ManagerError> {
    match nodewarden_topology::read(Path::new(SYSTEM)) {
        Ok(machine) => Ok(machine),
        Err(error)
            if !keys.has_static_cpus() && !keys.has_static_memory() && keys.topology_policy == "none" =>
        {
            warn!("{error}: CPUs and NUMA nodes are not shown");
            Ok(Machine { cpus: CpuTopology::new([]), nodes: Vec::new() })
        }
        Err(error) => Err(error.into()),
    }
}
