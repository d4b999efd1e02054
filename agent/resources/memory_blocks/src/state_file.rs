//! The file `memory_manager_state`, as a kubelet writes and reads it (`pkg/kubelet/cm/memorymanager/state`).

#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use nodewarden_model::fnv::fnv32a;
use nodewarden_topology::NodeSet;
use serde::{Deserialize, Serialize};

use crate::{Block, Blocks, MachineState, MemoryManager, NodeState, Table};

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateFile {
    /// The name of the policy: `None` or `Static`.
    pub policy: String,
    /// The NUMA nodes.
    pub machine: MachineState,
    /// What containers and pods have.
    pub blocks: Blocks,
}

/// The file is damaged, or none of a kubelet. It should be set aside, not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateFileError {
    /// It is not the JSON that it should be.
    #[error("memory_manager_state: {0}")]
    Json(String),
    /// The checksum is not that of the content.
    #[error("memory_manager_state: the checksum is {found}, that of the content is {expected}")]
    Checksum {
        /// In the file.
        found: u64,
        /// Computed.
        expected: u32,
    },
    /// A NUMA node has a number that is not supported.
    #[error("memory_manager_state: there is a NUMA node {0}")]
    Node(String),
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct File {
    policy_name: String,
    machine_state: BTreeMap<String, Node>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, BTreeMap<String, Vec<FileBlock>>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pod_entries: BTreeMap<String, PodEntry>,
    checksum: u64,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Node {
    number_of_assignments: i64,
    memory_map: BTreeMap<String, FileTable>,
    cells: Vec<u32>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FileTable {
    total: u64,
    system_reserved: u64,
    allocatable: u64,
    reserved: u64,
    free: u64,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FileBlock {
    numa_affinity: Vec<u32>,
    r#type: String,
    size: u64,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodEntry {
    memory_blocks: Vec<FileBlock>,
}

impl StateFile {
    /// What a manager has to save.
    pub fn of(manager: &MemoryManager) -> Self {
        Self {
            policy: manager.settings().policy.name().to_owned(),
            machine: manager.machine().clone(),
            blocks: manager.blocks().clone(),
        }
    }

    /// The text of the file: with what pods have as a whole with `pod_level` (the feature gate
    /// PodLevelResourceManagers), or if a pod has something as a whole.
    pub fn write(&self, pod_level: bool) -> String {
        let node = |(number, node): (&u32, &NodeState)| {
            let tables = node.memory.iter().map(|(resource, table)| (resource.clone(), file_table(table)));
            let cells = node.group.iter().collect();
            let node = Node { number_of_assignments: node.assignments, memory_map: tables.collect(), cells };
            (number.to_string(), node)
        };
        let containers = |blocks: &BTreeMap<String, Vec<Block>>| {
            blocks.iter().map(|(name, blocks)| (name.clone(), file_blocks(blocks))).collect()
        };
        let pods = self.blocks.pods.iter();
        let file = File {
            policy_name: self.policy.clone(),
            machine_state: self.machine.0.iter().map(node).collect(),
            entries: self
                .blocks
                .containers
                .iter()
                .map(|(uid, blocks)| (uid.clone(), containers(blocks)))
                .collect(),
            pod_entries: pods
                .map(|(uid, blocks)| (uid.clone(), PodEntry { memory_blocks: file_blocks(blocks) }))
                .collect(),
            checksum: self.checksum(pod_level).into(),
        };
        serde_json::to_string(&file).unwrap_or_default()
    }

    /// The checksum, with or without what pods have as a whole.
    pub fn checksum(&self, pod_level: bool) -> u32 {
        fnv32a(&text::of(self, pod_level || !self.blocks.pods.is_empty()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn read(text: &str) -> Result<Self, StateFileError> {
        let (state, found) = Self::parse(text)?;
        // What pods have as a whole counts with the feature gate even if there is none.
        let sums = [state.checksum(false), state.checksum(true)];
        match sums.iter().any(|sum| u64::from(*sum) == found) {
            true => Ok(state),
            false => Err(StateFileError::Checksum { found, expected: sums[0] }),
        }
    }

    /// What the file says, and its checksum.
    pub(crate) fn parse(text: &str) -> Result<(Self, u64), StateFileError> {
        let file: File =
            serde_json::from_str(text).map_err(|error| StateFileError::Json(error.to_string()))?;
        let mut state = Self { policy: file.policy_name, ..Self::default() };
        for (number, node) in file.machine_state {
            let known = number.parse().ok().filter(|number| *number <= NodeSet::GREATEST);
            let number = known.ok_or(StateFileError::Node(number))?;
            let tables = node.memory_map.into_iter().map(|(resource, table)| (resource, table.read()));
            let node = NodeState {
                assignments: node.number_of_assignments,
                memory: tables.collect(),
                group: node_set(&node.cells)?,
            };
            state.machine.0.insert(number, node);
        }
        for (uid, containers) in file.entries {
            let read = containers.into_iter().map(|(name, blocks)| Ok((name, read_blocks(blocks)?)));
            state.blocks.containers.insert(uid, read.collect::<Result<_, _>>()?);
        }
        for (uid, entry) in file.pod_entries {
            state.blocks.pods.insert(uid, read_blocks(entry.memory_blocks)?);
        }
        Ok((state, file.checksum))
    }
}

impl FileTable {
    fn read(self) -> Table {
        let Self { total, system_reserved, allocatable, reserved, free } = self;
        Table { total, system_reserved, allocatable, reserved, free }
    }
}

fn file_table(table: &Table) -> FileTable {
    let Table { total, system_reserved, allocatable, reserved, free } = *table;
    FileTable { total, system_reserved, allocatable, reserved, free }
}

fn file_blocks(blocks: &[Block]) -> Vec<FileBlock> {
    let one = |block: &Block| FileBlock {
        numa_affinity: block.nodes.iter().collect(),
        r#type: block.resource.clone(),
        size: block.size,
    };
    blocks.iter().map(one).collect()
}

fn read_blocks(blocks: Vec<FileBlock>) -> Result<Vec<Block>, StateFileError> {
    let one = |block: FileBlock| {
        Ok(Block { nodes: node_set(&block.numa_affinity)?, resource: block.r#type, size: block.size })
    };
    blocks.into_iter().map(one).collect()
}

fn node_set(numbers: &[u32]) -> Result<NodeSet, StateFileError> {
    match numbers.iter().find(|number| **number > NodeSet::GREATEST) {
        Some(number) => Err(StateFileError::Node(number.to_string())),
        None => Ok(numbers.iter().copied().collect()),
    }
}
