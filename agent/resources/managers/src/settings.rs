//! The settings of all managers for one machine (kubelet `NewContainerManager`).

use nodewarden_config::ResourceManagerSettings;
use nodewarden_cpus as cpus;
use nodewarden_manifest::ResourceList;
use nodewarden_memory_blocks as memory;
use nodewarden_topology::{Machine, Settings as TopologySettings};

use crate::ManagerError;

/// What is set aside of the node: `systemReserved` and `kubeReserved`, of memory also `evictionHard`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservation(pub ResourceList);

impl Reservation {
    /// Whole CPUs, rounded up.
    fn cpus(&self) -> usize {
        let milli = self.0.get("cpu").map_or(0, |cpus| cpus.milli_value());
        usize::try_from(milli).unwrap_or(0).div_ceil(1000)
    }

    /// Memory alone: the memory manager compares it with `reservedMemory`.
    fn memory(&self) -> ResourceList {
        self.0
            .iter()
            .filter(|(name, _)| *name != "cpu")
            .map(|(name, sum)| (name.clone(), sum.clone()))
            .collect()
    }
}

/// The settings of the three managers, which fit each other and the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub topology: TopologySettings,
    pub cpus: cpus::Settings,
    pub memory: memory::Settings,
}

impl Settings {
    /// # Errors
    /// The first key that cannot be held on this machine.
    pub fn new(
        keys: &ResourceManagerSettings,
        reserved: &Reservation,
        machine: &Machine,
    ) -> Result<Self, ManagerError> {
        let distances_known = machine.nodes.iter().all(|node| node.distances.len() == machine.nodes.len());
        let topology = TopologySettings::new(
            &keys.topology_policy,
            &keys.topology_scope,
            &keys.topology_options,
            machine.nodes.len(),
            distances_known,
        )?;
        Ok(Self {
            cpus: cpu_settings(keys, reserved, machine, topology)?,
            memory: memory_settings(keys, reserved, machine)?,
            topology,
        })
    }
}

fn cpu_settings(
    keys: &ResourceManagerSettings,
    reserved: &Reservation,
    machine: &Machine,
    topology: TopologySettings,
) -> Result<cpus::Settings, ManagerError> {
    if cpus::Policy::parse(&keys.cpu_policy)? == cpus::Policy::None {
        return Ok(cpus::Settings::default());
    }
    let options = cpus::Options::parse(&keys.cpu_options, keys.cpu_alpha_options, keys.cpu_beta_options)?;
    let single = topology.policy == nodewarden_topology::Policy::SingleNumaNode;
    let settings =
        cpus::Settings::fixed(&machine.cpus, options, reserved.cpus(), &keys.reserved_cpus, single)?;
    Ok(cpus::Settings { pod_level: keys.pod_level, ..settings })
}

fn memory_settings(
    keys: &ResourceManagerSettings,
    reserved: &Reservation,
    machine: &Machine,
) -> Result<memory::Settings, ManagerError> {
    if memory::Policy::parse(&keys.memory_policy)? == memory::Policy::None {
        return Ok(memory::Settings::default());
    }
    let settings =
        memory::Settings::from_reserved_memory(&machine.nodes, &reserved.memory(), &keys.reserved_memory)?;
    Ok(memory::Settings { pod_level: keys.pod_level, ..settings })
}

/// Checks the keys for a machine, as the agent does when it starts.
///
/// # Errors
/// The first key that cannot be held on this machine.
pub fn check(
    keys: &ResourceManagerSettings,
    reserved: &Reservation,
    machine: &Machine,
) -> Result<(), ManagerError> {
    Settings::new(keys, reserved, machine).map(drop)
}
