//! How much memory of each type every NUMA node has, and how much of it is given away (`state.NUMANodeMap`).

use std::collections::BTreeMap;

use nodewarden_manifest::names::hugepages;
use nodewarden_topology::{NodeSet, NumaNode};

use crate::{Block, MEMORY, SettingsError};

/// Reserved bytes by NUMA node and type of memory.
pub type Reserved = BTreeMap<u32, BTreeMap<String, u64>>;

/// Memory of one type on a NUMA node, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Table {
    /// What the node has.
    pub total: u64,
    /// What is never given to a container.
    pub system_reserved: u64,
    /// What can be given to containers; of ordinary memory without the huge pages.
    pub allocatable: u64,
    /// What is given to containers.
    pub reserved: u64,
    /// What is not given yet.
    pub free: u64,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// The number of blocks that come from it.
    pub assignments: i64,
    /// By type.
    pub memory: BTreeMap<String, Table>,
    /// The nodes that its blocks come from together, itself among them.
    pub group: NodeSet,
}

/// The NUMA nodes, by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineState(pub BTreeMap<u32, NodeState>);

impl MachineState {
    /// The machine with nothing given away (`getDefaultMachineState`).
    ///
    /// # Errors
    /// More is reserved than a node has.
    pub fn empty(nodes: &[NumaNode], reserved: &Reserved) -> Result<Self, SettingsError> {
        let mut state = BTreeMap::new();
        for node in nodes {
            let table = |resource: &str, total: u64, usable: u64| {
                let own = reserved.get(&node.id).and_then(|own| own.get(resource)).copied().unwrap_or(0);
                let error = SettingsError::MoreThanThere {
                    node: node.id,
                    resource: resource.to_owned(),
                    reserved: own,
                    total: usable,
                };
                let allocatable = usable.checked_sub(own).ok_or(error)?;
                Ok(Table { total, system_reserved: own, allocatable, reserved: 0, free: allocatable })
            };
            let (mut memory, mut in_pages) = (BTreeMap::new(), 0u64);
            for pages in &node.huge_pages {
                let bytes = pages.size_kib.saturating_mul(1024).saturating_mul(pages.count);
                let name = hugepages(pages.size_kib.saturating_mul(1024));
                in_pages = in_pages.saturating_add(bytes);
                memory.insert(name.clone(), table(&name, bytes, bytes)?);
            }
            let usable = node.memory_bytes.saturating_sub(in_pages);
            memory.insert(MEMORY.to_owned(), table(MEMORY, node.memory_bytes, usable)?);
            state.insert(node.id, NodeState { assignments: 0, memory, group: NodeSet::of(node.id) });
        }
        Ok(Self(state))
    }

    /// The nodes.
    pub fn nodes(&self) -> NodeSet {
        self.0.keys().copied().collect()
    }

    /// Whether every node has memory of this type, if only 0 bytes.
    pub(crate) fn knows(&self, resource: &str) -> bool {
        self.0.values().any(|node| node.memory.contains_key(resource))
    }

    /// A sum over some nodes.
    pub(crate) fn sum(&self, nodes: NodeSet, resource: &str, of: fn(&Table) -> u64) -> u64 {
        let tables = nodes.iter().filter_map(|node| self.0.get(&node)?.memory.get(resource));
        tables.map(of).fold(0, u64::saturating_add)
    }

    /// Takes `bytes` from the nodes in turn, and notes the block on each (`updateMachineState`). Returns the
    /// bytes that the nodes do not have.
    pub(crate) fn take(&mut self, nodes: NodeSet, resource: &str, bytes: u64) -> u64 {
        let mut rest = bytes;
        for node in nodes.iter() {
            let Some(state) = self.0.get_mut(&node) else { continue };
            state.assignments += 1;
            state.group = nodes;
            let Some(table) = state.memory.get_mut(resource) else { continue };
            let part = rest.min(table.free);
            table.reserved += part;
            table.free -= part;
            rest -= part;
        }
        rest
    }

    /// Gives a block back to its nodes in turn (`releaseMemory`).
    pub(crate) fn give_back(&mut self, block: &Block) {
        let mut rest = block.size;
        for node in block.nodes.iter() {
            let Some(state) = self.0.get_mut(&node) else { continue };
            state.assignments -= 1;
            if state.assignments == 0 {
                state.group = NodeSet::of(node);
            }
            let Some(table) = state.memory.get_mut(&block.resource) else { continue };
            let part = rest.min(table.reserved);
            table.reserved -= part;
            table.free += part;
            rest -= part;
        }
    }

    /// Whether blocks may come from these nodes together: none of them is used alone or in another group
    /// (`isAffinityViolatingNUMAAllocations`).
    pub(crate) fn fits_groups(&self, nodes: NodeSet) -> bool {
        let mut used = nodes.iter().filter_map(|node| self.0.get(&node)).filter(|node| node.assignments > 0);
        used.all(|node| node.group == nodes)
    }

    /// Whether both have the same memory, and the same given away in each group (`areMachineStatesEqual`):
    /// how a group's memory is spread over its nodes depends on the order in which blocks were given.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let same = |(number, node): (&u32, &NodeState)| {
            let Some(twin) = other.0.get(number) else { return false };
            let same_type = |(resource, table): (&String, &Table)| {
                let fixed = |table: &Table| (table.total, table.system_reserved, table.allocatable);
                let sums = |state: &Self| {
                    let sum = |of| state.sum(node.group, resource, of);
                    (sum(|table| table.free), sum(|table| table.reserved))
                };
                twin.memory.get(resource).is_some_and(|twin| fixed(twin) == fixed(table))
                    && sums(self) == sums(other)
            };
            (node.assignments, node.group, node.memory.len())
                == (twin.assignments, twin.group, twin.memory.len())
                && node.memory.iter().all(same_type)
        };
        self.0.len() == other.0.len() && self.0.iter().all(same)
    }
}
