//! From which NUMA nodes a container or pod could have its memory.

use std::collections::BTreeSet;

use nodewarden_manifest::{Container, Pod, QosClass};
use nodewarden_topology::{Hint, Hints, NodeSet, NodeSums};

use super::MemoryManager;
use super::requests::Request;
use crate::{Block, MachineState, Policy, Table};

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

    /// Hints for a pod as a whole (`GetPodTopologyHints`). A pod of which a container has memory has no
    /// preference, unless that is what the whole pod asks for: it keeps what it has.
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

    /// The hints, the same ones for each type. Where nothing has room, none for each type: such a pod cannot
    /// be aligned. (The kubelet gives no hints then, which means that it does not matter.)
    fn for_request(&self, pod_uid: &str, request: &Request) -> Hints {
        let hints = self.candidates(pod_uid, request);
        request.keys().map(|resource| (resource.clone(), Some(hints.clone()))).collect()
    }

    /// Every set of NUMA nodes that has enough of each type, and of which no node is used alone or in another
    /// group. Preferred are those with as few nodes as the machine needs when nothing is given away
    /// (`calculateHints`).
    fn candidates(&self, pod_uid: &str, request: &Request) -> Vec<Hint> {
        let (least, sets) = self.search(pod_uid, request, NodeSet::EMPTY, false);
        sets.into_iter().map(|set| Hint::of(set, set.len() == least)).collect()
    }

    /// The best of those candidates that contain `nodes`, and whether it is preferred: with as few nodes as
    /// possible, and of these the lowest (`findBestHint`). Larger sets are not looked at, so that this is
    /// fast on machines with many nodes too.
    pub(super) fn best(&self, pod_uid: &str, request: &Request, nodes: NodeSet) -> Option<(NodeSet, bool)> {
        let (least, sets) = self.search(pod_uid, request, nodes, true);
        let best = sets.into_iter().min_by(|a, b| a.by_width(*b))?;
        Some((best, best.len() == least))
    }

    /// The number of nodes that the machine needs for a request when nothing is given away, and the
    /// candidates that contain `nodes`: all, or only the smallest ones.
    fn search(
        &self,
        pod_uid: &str,
        request: &Request,
        nodes: NodeSet,
        smallest: bool,
    ) -> (usize, Vec<NodeSet>) {
        let all = self.machine.nodes();
        let (mut least, mut sets) = (all.len(), Vec::new());
        if request.is_empty() || request.keys().any(|resource| !self.machine.knows(resource)) {
            return (least, sets);
        }
        let types: Vec<OfType> =
            request.iter().map(|(resource, bytes)| OfType::new(self, resource, *bytes)).collect();
        let reusable = |set: NodeSet, resource: &str| match self.reusable.1.is_empty() {
            true => 0,
            false => self.reusable(pod_uid, set, resource),
        };
        let groups = Groups::of(&self.machine);
        for size in 1..=all.len() {
            all.for_each_of_size(size, |set| {
                if types.iter().any(|own| own.allocatable.of(set) < own.bytes) {
                    return;
                }
                least = least.min(size);
                let has =
                    |own: &OfType| own.free.of(set).saturating_add(reusable(set, own.resource)) >= own.bytes;
                if nodes.is_subset(set) && types.iter().all(has) && groups.allow(set) {
                    sets.push(set);
                }
            });
            if smallest && !sets.is_empty() {
                break;
            }
        }
        (least, sets)
    }
}

/// Which nodes are used together.
struct Groups<'a> {
    machine: &'a MachineState,
    /// The nodes that have blocks.
    used: NodeSet,
    /// Their groups.
    all: BTreeSet<NodeSet>,
    /// The nodes in groups of several.
    with_others: NodeSet,
}

impl<'a> Groups<'a> {
    fn of(machine: &'a MachineState) -> Self {
        let nodes = || machine.0.iter();
        Self {
            machine,
            used: nodes().filter(|(_, node)| node.assignments > 0).map(|(number, _)| *number).collect(),
            all: nodes().map(|(_, node)| node.group).collect(),
            with_others: nodes()
                .filter(|(_, node)| node.group.len() > 1)
                .map(|(number, _)| *number)
                .collect(),
        }
    }

    /// Whether a set can be hinted at: one node if it is in no group of several, several if none is used
    /// otherwise.
    fn allow(&self, set: NodeSet) -> bool {
        match set.len() {
            1 => set.and(self.with_others).is_empty(),
            _ => set.and(self.used).is_empty() || self.all.contains(&set) && self.machine.fits_groups(set),
        }
    }
}

/// What is asked for of one type, and what each NUMA node has of it.
struct OfType<'a> {
    resource: &'a str,
    bytes: u64,
    allocatable: NodeSums,
    free: NodeSums,
}

impl<'a> OfType<'a> {
    fn new(manager: &MemoryManager, resource: &'a str, bytes: u64) -> Self {
        let sums = |of: fn(&Table) -> u64| {
            let one = |node: u32| manager.machine.sum(NodeSet::of(node), resource, of);
            NodeSums::new(manager.machine.nodes(), one)
        };
        Self { resource, bytes, allocatable: sums(|table| table.allocatable), free: sums(|table| table.free) }
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
