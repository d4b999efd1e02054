//! From which NUMA nodes containers have memory, as a value: nothing is read or written, and no operation
//! waits.

mod allocate;
mod hints;
mod pod_level;
mod provider;
mod requests;
mod restore;

use std::collections::BTreeMap;

use nodewarden_topology::{NodeSet, NumaNode};

use crate::{Blocks, MachineState, Settings, SettingsError};

pub use restore::Finding;

/// Memory of the init containers of a pod that can be used again: nodes, type, bytes.
type Reusable = BTreeMap<(NodeSet, String), u64>;

/// The memory manager (`memorymanager.staticPolicy`, or `nonePolicy`).
#[derive(Debug, Clone)]
pub struct MemoryManager {
    settings: Settings,
    /// The machine with nothing given away.
    empty: MachineState,
    machine: MachineState,
    blocks: Blocks,
    /// The pod whose containers were allocated last.
    reusable: (String, Reusable),
    /// Whether blocks are larger than what the machine has, after [`Self::restore`] on a smaller machine.
    short: bool,
}

impl MemoryManager {
    /// A manager that has given nothing away.
    ///
    /// # Errors
    /// More is reserved than a node has.
    pub fn new(nodes: &[NumaNode], settings: Settings) -> Result<Self, SettingsError> {
        let empty = MachineState::empty(nodes, &settings.reserved)?;
        let machine = empty.clone();
        Ok(Self {
            settings,
            empty,
            machine,
            blocks: Blocks::default(),
            reusable: Default::default(),
            short: false,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How much memory every NUMA node has.
    pub fn machine(&self) -> &MachineState {
        &self.machine
    }

    /// What containers and pods have.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The NUMA nodes from which a container has its memory; `None` if it may have it from any.
    pub fn nodes_of(&self, pod_uid: &str, container: &str) -> Option<NodeSet> {
        let blocks = self.blocks.get(pod_uid, container)?;
        blocks.iter().map(|block| block.nodes).reduce(NodeSet::or)
    }

    /// Takes back what a container has (`RemoveContainer`). Of a pod that got memory as a whole it is taken
    /// back with its last container. Nothing happens if it has none.
    pub fn remove(&mut self, pod_uid: &str, container: &str) {
        let Some(containers) = self.blocks.containers.get_mut(pod_uid) else { return };
        let Some(mut released) = containers.remove(container) else { return };
        let last = containers.is_empty();
        if last {
            self.blocks.containers.remove(pod_uid);
        }
        if self.blocks.pods.contains_key(pod_uid) {
            released = if last { self.blocks.pods.remove(pod_uid).unwrap_or_default() } else { Vec::new() };
        }
        released.iter().for_each(|block| self.machine.give_back(block));
        if self.reusable.0 == pod_uid {
            self.reusable.1.clear();
        }
        if self.short {
            self.rebuild();
        }
    }

    /// Takes back what every container has that `keep` does not name, by pod uid and container name.
    pub fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        let names = self.blocks.containers.iter();
        let all = names
            .flat_map(|(pod, containers)| containers.keys().map(move |name| (pod.clone(), name.clone())));
        let gone: Vec<_> = all.filter(|(pod, name)| !keep(pod, name)).collect();
        gone.iter().for_each(|(pod, name)| self.remove(pod, name));
    }

    /// Computes the machine's state from the blocks.
    fn rebuild(&mut self) {
        let mut machine = self.empty.clone();
        let missing = self.blocks.taken().map(|block| machine.take(block.nodes, &block.resource, block.size));
        self.short = missing.sum::<u64>() > 0;
        self.machine = machine;
    }

    /// What of the pod's init containers can be used again.
    fn reusable(&self, pod_uid: &str, nodes: NodeSet, resource: &str) -> u64 {
        match self.reusable.0 == pod_uid {
            true => self.reusable.1.get(&(nodes, resource.to_owned())).copied().unwrap_or(0),
            false => 0,
        }
    }

    /// Whether what is taken from each group of nodes is what containers have of it, and no node is in two
    /// groups.
    #[cfg(test)]
    pub(crate) fn is_consistent(&self) -> bool {
        let mut expected = self.empty.clone();
        let apart =
            |a: &crate::Block, b: &crate::Block| a.nodes == b.nodes || a.nodes.and(b.nodes).is_empty();
        let blocks: Vec<_> = self.blocks.taken().collect();
        blocks.iter().all(|a| blocks.iter().all(|b| apart(a, b)))
            && blocks.iter().all(|block| expected.take(block.nodes, &block.resource, block.size) == 0)
            && self.machine.agrees(&expected)
    }

    /// The same in another state, for comparisons with a kubelet's states.
    #[cfg(test)]
    pub(crate) fn with(self, machine: MachineState, blocks: Blocks) -> Self {
        Self { machine, blocks, ..self }
    }
}
