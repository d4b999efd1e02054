//! Takes over what a state file says that containers have.
//!
//! A kubelet does not start when the memory of the NUMA nodes or what is reserved of it is not that of the
//! file. Here every container keeps what it can keep, and the rest is reported.

use nodewarden_topology::{NodeSet, NumaNode};

use super::MemoryManager;
use crate::{Block, Blocks, MachineState, Policy, Settings, SettingsError};

/// Something that is not as the state file says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The policy is `None` now: the container may have memory from any node.
    #[error(
        "pod {pod_uid}, container {container}: its memory is no longer bound to NUMA nodes: the memory manager policy is None"
    )]
    NoPolicy {
        /// The pod.
        pod_uid: String,
        /// The container; empty for the pod as a whole.
        container: String,
    },
    /// A NUMA node or type of memory is not there any more; the block is dropped.
    #[error("pod {pod_uid}, container {container}: there is no {} on NUMA nodes {}", block.resource, block.nodes)]
    Gone {
        /// The pod.
        pod_uid: String,
        /// The container; empty for the pod as a whole.
        container: String,
        /// What it had.
        block: Block,
    },
    /// NUMA nodes have less than their containers have together. They keep it, and no other gets any there.
    #[error("NUMA nodes {nodes}: containers have {missing} bytes of {resource} more than there is for them")]
    Short {
        /// The nodes.
        nodes: NodeSet,
        /// The type.
        resource: String,
        /// How many bytes.
        missing: u64,
    },
    /// The machine's memory or what is reserved of it is not that of the file; the blocks are kept.
    #[error("the memory of the NUMA nodes, or what is reserved of it, is not that of the state file")]
    Changed,
}

impl MemoryManager {
    /// A manager with what a state file says that containers have (`machine`: how it says that the machine
    /// is), and what of it could not be kept. Containers that no longer run are removed afterwards
    /// ([`Self::retain`]).
    ///
    /// # Errors
    /// More is reserved than a node has.
    pub fn restore(
        nodes: &[NumaNode],
        settings: Settings,
        machine: &MachineState,
        saved: &Blocks,
    ) -> Result<(Self, Vec<Finding>), SettingsError> {
        let mut manager = Self::new(nodes, settings)?;
        let mut findings = Vec::new();
        for (uid, containers) in &saved.containers {
            for (name, blocks) in containers {
                if let Some(kept) = manager.kept(uid, name, blocks, &mut findings) {
                    manager.blocks.set(uid, name, kept);
                }
            }
        }
        for (uid, blocks) in &saved.pods {
            let kept = manager.kept(uid, "", blocks, &mut findings);
            if let Some(kept) = kept.filter(|_| manager.blocks.containers.contains_key(uid)) {
                manager.blocks.pods.insert(uid.clone(), kept);
            }
        }
        let mut expected = manager.empty.clone();
        for block in manager.blocks.taken() {
            let missing = expected.take(block.nodes, &block.resource, block.size);
            if missing > 0 {
                findings.push(Finding::Short {
                    nodes: block.nodes,
                    resource: block.resource.clone(),
                    missing,
                });
                manager.short = true;
            }
        }
        let none = manager.settings.policy == Policy::None;
        if machine.agrees(&expected) {
            manager.machine = machine.clone();
        } else {
            manager.machine = expected;
            if !none && !machine.0.is_empty() && findings.is_empty() {
                findings.push(Finding::Changed);
            }
        }
        Ok((manager, findings))
    }

    /// The blocks that a container or pod keeps; `None` if it keeps none.
    fn kept(
        &self,
        uid: &str,
        container: &str,
        blocks: &[Block],
        findings: &mut Vec<Finding>,
    ) -> Option<Vec<Block>> {
        let (pod_uid, container) = (uid.to_owned(), container.to_owned());
        if self.settings.policy == Policy::None {
            findings.push(Finding::NoPolicy { pod_uid, container });
            return None;
        }
        let there = |block: &Block| {
            !block.nodes.is_empty()
                && block.nodes.is_subset(self.empty.nodes())
                && self.empty.knows(&block.resource)
        };
        let (kept, gone): (Vec<Block>, Vec<Block>) = blocks.iter().cloned().partition(there);
        let all_gone = !gone.is_empty() && kept.is_empty();
        let finding = |block| Finding::Gone { pod_uid: pod_uid.clone(), container: container.clone(), block };
        findings.extend(gone.into_iter().map(finding));
        (!all_gone).then_some(kept)
    }
}

#[cfg(test)]
mod tests;
