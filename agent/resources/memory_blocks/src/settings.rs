//! `memoryManagerPolicy` and `reservedMemory`.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_manifest::{Quantity, ResourceList};
use nodewarden_topology::NumaNode;

use crate::machine::{MachineState, Reserved};
use crate::{MEMORY, SettingsError, is_memory};

/// `memoryManagerPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Memory comes from any NUMA node.
    #[default]
    None,
    /// Containers of Guaranteed pods have their memory from chosen NUMA nodes.
    Static,
}

impl Policy {
    /// The policy of this name.
    ///
    /// # Errors
    /// There is none on Linux.
    pub fn parse(name: &str) -> Result<Self, SettingsError> {
        match name {
            "None" => Ok(Self::None),
            "Static" => Ok(Self::Static),
            "BestEffort" => Err(SettingsError::WindowsOnly),
            _ => Err(SettingsError::Policy(name.to_owned())),
        }
    }

    /// Its name in the settings and in the state file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Static => "Static",
        }
    }
}

/// The settings of the memory manager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `memoryManagerPolicy`.
    pub policy: Policy,
    /// Memory that is not given to containers.
    pub reserved: Reserved,
    /// Whether pods with resources of their own get memory as a whole (the feature gate
    /// PodLevelResourceManagers).
    pub pod_level: bool,
}

impl Settings {
    /// The settings of the policy `Static`. Source: `NewPolicyStatic`.
    ///
    /// # Errors
    /// No memory is reserved, or more on a node than it has.
    pub fn fixed(nodes: &[NumaNode], reserved: Reserved) -> Result<Self, SettingsError> {
        let memory: u64 = reserved.values().filter_map(|node| node.get(MEMORY)).sum();
        if memory == 0 {
            return Err(SettingsError::NothingReserved);
        }
        MachineState::empty(nodes, &reserved)?;
        Ok(Self { policy: Policy::Static, reserved, pod_level: false })
    }
}

/// What `reservedMemory` reserves on each NUMA node, in bytes; 0 is left out. `node_reserved`: what is
/// reserved of the node as a whole by `systemReserved`, `kubeReserved` and `evictionHard`. Source:
/// `getSystemReservedMemory`.
///
/// # Errors
/// A node is not there, or the sums are not `node_reserved`.
pub(crate) fn reserved(
    nodes: &BTreeSet<u32>,
    node_reserved: &ResourceList,
    by_node: &[(u32, ResourceList)],
) -> Result<Reserved, SettingsError> {
    let mut totals = ResourceList::new();
    for (node, limits) in by_node {
        if !nodes.contains(node) {
            return Err(SettingsError::NoSuchNode(*node));
        }
        for (resource, amount) in limits {
            match totals.get_mut(resource) {
                Some(total) => *total += amount,
                None => drop(totals.insert(resource.clone(), amount.clone())),
            }
        }
    }
    let known = node_reserved.keys().filter(|name| is_memory(name));
    for resource in known.chain(totals.keys()).collect::<BTreeSet<_>>() {
        let sum = |list: &ResourceList| Quantity::default() + list.get(resource).cloned().unwrap_or_default();
        let (total, expected) = (sum(&totals), sum(node_reserved));
        if total != expected {
            let (total, expected) = (total.to_string(), expected.to_string());
            return Err(SettingsError::Total { resource: resource.clone(), total, expected });
        }
    }
    let mut reserved: Reserved = nodes.iter().map(|node| (*node, BTreeMap::new())).collect();
    for (node, limits) in by_node {
        for (resource, amount) in limits.iter().filter(|(_, amount)| amount.is_positive()) {
            let bytes = u64::try_from(amount.value()).unwrap_or(0);
            *reserved.entry(*node).or_default().entry(resource.clone()).or_default() += bytes;
        }
    }
    Ok(reserved)
}

impl Settings {
    /// The settings of the policy `Static` from `reservedMemory` (node and amounts) and what is reserved of
    /// the node as a whole by `systemReserved`, `kubeReserved` and `evictionHard`. Source:
    /// `getSystemReservedMemory`.
    ///
    /// # Errors
    /// They do not fit each other or the machine.
    pub fn from_reserved_memory(
        nodes: &[NumaNode],
        node_reserved: &ResourceList,
        by_node: &[(u32, ResourceList)],
    ) -> Result<Self, SettingsError> {
        let numbers = nodes.iter().map(|node| node.id).collect();
        Self::fixed(nodes, reserved(&numbers, node_reserved, by_node)?)
    }
}
