//! The memory that containers and pods have.

use std::collections::BTreeMap;

use nodewarden_topology::NodeSet;

/// Memory of one type that a container or pod has (`state.Block`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The NUMA nodes that it comes from.
    pub nodes: NodeSet,
    /// The type: `memory`, `hugepages-2Mi`.
    pub resource: String,
    /// Its size in bytes. Of an init container less than it asked for when a later container uses its memory
    /// again.
    pub size: u64,
}

/// The blocks of containers and pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Pod uid, container name, blocks by type.
    pub containers: BTreeMap<String, BTreeMap<String, Vec<Block>>>,
    /// Pod uid, blocks: of pods that got memory as a whole. Their containers' blocks are parts of these.
    pub pods: BTreeMap<String, Vec<Block>>,
}

impl Blocks {
    /// The blocks of a container; `None` if it was given none.
    pub fn get(&self, pod_uid: &str, container: &str) -> Option<&Vec<Block>> {
        self.containers.get(pod_uid)?.get(container)
    }

    pub(crate) fn set(&mut self, pod_uid: &str, container: &str, blocks: Vec<Block>) {
        self.containers.entry(pod_uid.to_owned()).or_default().insert(container.to_owned(), blocks);
    }

    /// The blocks that are taken from the machine: of pods that got memory as a whole theirs, else those of
    /// the containers.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &Block> {
        let alone = self.containers.iter().filter(|(uid, _)| !self.pods.contains_key(*uid));
        alone.flat_map(|(_, containers)| containers.values().flatten()).chain(self.pods.values().flatten())
    }
}
