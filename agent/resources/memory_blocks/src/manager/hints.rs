//! From which NUMA nodes a container or pod could have its memory.

use nodewarden_manifest::{Container, Pod, QosClass};
use nodewarden_topology::{Hint, Hints, NodeSet};

use super::requests::Request;
use super::{Block, MemoryManager};
use crate::Policy;

impl MemoryManager {
    /// Hints for a container (`GetTopologyHints`): of a container that has its memory the nodes of that.
    pub fn hints(&self, pod: &Pod, container: &Container) -> Hints {
        if self.settings.policy == Policy::None || pod.qos != QosClass::Guaranteed || self.leaves_alone(pod) {
            return Hints::new();
        }
        let request = self.of_container(pod, container);
        match self.blocks.get(&pod.uid, &container.name) {
            Some(blocks) => of_blocks(blocks, &request),
            None => self.for_request(&pod.uid, &request),
        }
    }

    /// Hints for a pod as a whole (`GetPodTopologyHints`). A pod of which a container has memory has no preference,
    /// unless that is what the whole pod asks for: it keeps what it has.
    pub fn pod_hints(&self, pod: &Pod) -> Hints {
        if self.settings.policy == Policy::None || pod.qos != QosClass::Guaranteed || self.leaves_alone(pod) {
            return Hints::new();
        }
        let request = self.of_pod(pod);
        if self.by_pod(pod) && self.check_pod_pool(pod, &request).is_err() {
            return not_aligned(&request);
        }
        let mut containers = pod.init_containers.iter().chain(&pod.containers);
        match containers.find_map(|container| self.blocks.get(&pod.uid, &container.name)) {
            Some(blocks) => of_blocks(blocks, &request),
            None => self.for_request(&pod.uid, &request),
        }
    }

    /// The hints, the same ones for each type. Where nothing has room, none for each type: such a pod cannot be aligned.
    /// (The kubelet gives no hints then, which means that it does not matter.)
    fn for_request(&self, pod_uid: &str, request: &Request) -> Hints {
        let hints = self.candidates(pod_uid, request);
        request.keys().map(|resource| (resource.clone(), Some(hints.clone()))).collect()
    }

    /// Every set of NUMA nodes that has enough of each type, and of which no node is used alone or in another group.
    /// Preferred are those with as few nodes as the machine needs when nothing is given away (`calculateHints`).
    pub(super) fn candidates(&self, pod_uid: &str, request: &Request) -> Vec<Hint> {
        if request.is_empty() || request.keys().any(|resource| !self.machine.knows(resource)) {
            return Vec::new();
        }
        let nodes = self.machine.nodes();
        let types: Vec<OfType> =
            request.iter().map(|(resource, bytes)| OfType::new(self, resource, *bytes)).collect();
        let reusable = |set: NodeSet, resource: &str| match self.reusable.1.is_empty() {
            true => 0,
            false => self.reusable(pod_uid, set, resource),
        };
        let (mut least, mut sets) = (nodes.len(), Vec::new());
        nodes.for_each_subset(|set| {
            if types.iter().any(|own| set.sum(&own.allocatable) < own.bytes) {
                return;
            }
            least = least.min(set.len());
            let has =
                |own: &OfType| set.sum(&own.free).saturating_add(reusable(set, own.resource)) >= own.bytes;
            if types.iter().all(has) && self.groups_allow(set) {
                sets.push(set);
            }
        });
        sets.into_iter().map(|set| Hint::of(set, set.len() == least)).collect()
    }

    /// Whether a set can be hinted at: one node if it is in no group of several, several if none is used otherwise.
    fn groups_allow(&self, set: NodeSet) -> bool {
        if set.len() == 1 {
            let mut nodes = set.iter().filter_map(|node| self.machine.0.get(&node));
            return nodes.all(|node| node.group.len() == 1);
        }
        self.machine.fits_groups(set)
    }
}

/// What is asked for of one type, and what each NUMA node has of it.
struct OfType<'a> {
    resource: &'a str,
    bytes: u64,
    /// By number of the node.
    allocatable: [u64; 64],
    /// By number of the node.
    free: [u64; 64],
}

impl<'a> OfType<'a> {
    fn new(manager: &MemoryManager, resource: &'a str, bytes: u64) -> Self {
        let (mut allocatable, mut free) = ([0; 64], [0; 64]);
        for (number, node) in &manager.machine.0 {
            let table = node.memory.get(resource).copied().unwrap_or_default();
            allocatable[*number as usize] = table.allocatable;
            free[*number as usize] = table.free;
        }
        Self { resource, bytes, allocatable, free }
    }
}

/// The nodes of blocks that were given already, if they are what is asked for (`regenerateHints`).
fn of_blocks(blocks: &[Block], request: &Request) -> Hints {
    let same = |block: &Block| request.get(&block.resource) == Some(&block.size);
    if blocks.len() != request.len() || !blocks.iter().all(same) {
        return Hints::new();
    }
    blocks.iter().map(|block| (block.resource.clone(), Some(vec![Hint::of(block.nodes, true)]))).collect()
}

fn not_aligned(request: &Request) -> Hints {
    request.keys().map(|resource| (resource.clone(), Some(Vec::new()))).collect()
}
