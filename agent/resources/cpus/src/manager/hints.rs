//! From which NUMA nodes a container or pod could have its CPUs.

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::{Container, Pod};
use nodewarden_topology::{Hint, Hints, NodeSet, NodeSums};

use super::CpuManager;
use crate::Policy;

const CPU: &str = "cpu";

impl CpuManager {
    /// Hints for a container (`GetTopologyHints`): of a container that has its CPUs their NUMA nodes.
    pub fn hints(&self, pod: &Pod, container: &Container) -> Hints {
        let requested = self.of_container(pod, container);
        if self.settings.policy == Policy::None || requested == 0 || self.leaves_alone(pod) {
            return Hints::new();
        }
        match self.assignments.get(&pod.uid, &container.name) {
            Some(cpus) if cpus.len() != requested => not_aligned(),
            Some(cpus) => self.for_cpus(cpus, &CpuSet::default(), requested),
            None => self.for_cpus(&self.available(), &self.reusable(&pod.uid), requested),
        }
    }

    /// Hints for a pod as a whole (`GetPodTopologyHints`).
    ///
    /// A pod that got CPUs as a whole keeps them: the hints are for these. (The kubelet compares each
    /// container's CPUs with its request, and so rejects running pods with containers that share the pod's
    /// CPUs.)
    pub fn pod_hints(&self, pod: &Pod) -> Hints {
        let requested = self.of_pod(pod);
        if self.settings.policy == Policy::None || requested == 0 || self.leaves_alone(pod) {
            return Hints::new();
        }
        if let Some(cpus) = self.assignments.pods.get(&pod.uid) {
            return match cpus.len() == requested {
                true => self.for_cpus(cpus, &CpuSet::default(), requested),
                false => not_aligned(),
            };
        }
        if pod.sets_pod_level_resources() && self.check_pod_pool(pod).is_err() {
            return not_aligned();
        }
        let mut assigned = CpuSet::default();
        for container in pod.init_containers.iter().chain(&pod.containers) {
            let Some(cpus) = self.assignments.get(&pod.uid, &container.name) else { continue };
            if cpus.len() != self.of_container(pod, container) {
                return not_aligned();
            }
            assigned.add(cpus);
        }
        if assigned.len() == requested {
            return self.for_cpus(&assigned, &CpuSet::default(), requested);
        }
        self.for_cpus(&self.available(), &self.reusable(&pod.uid).union(&assigned), requested)
    }

    /// Every set of NUMA nodes that has enough CPUs in `free` and all of `reusable`. Preferred are those with
    /// as few nodes as the machine needs for so many CPUs when all of them are free
    /// (`generateCPUTopologyHints`).
    fn for_cpus(&self, free: &CpuSet, reusable: &CpuSet, requested: usize) -> Hints {
        let nodes = self.topology.nodes();
        let all_nodes = self.topology.node_set();
        let count = |cpus: &CpuSet, node: u32| {
            nodes.iter().find(|unit| unit.id == node).map_or(0, |unit| unit.cpus.common(cpus))
        };
        let all = NodeSums::new(all_nodes, |node| count(self.topology.all(), node) as u64);
        let free = NodeSums::new(all_nodes, |node| (count(free, node) + count(reusable, node)) as u64);
        let used: NodeSet = all_nodes.iter().filter(|node| count(reusable, *node) > 0).collect();
        let (mut least, mut sets, wanted) = (nodes.len(), Vec::new(), requested as u64);
        all_nodes.for_each_subset(|set| {
            if all.of(set) >= wanted {
                least = least.min(set.len());
            }
            if used.is_subset(set) && free.of(set) >= wanted {
                sets.push(set);
            }
        });
        let preferred = |set: NodeSet| {
            set.len() == least || self.settings.options.by_socket && self.on_few_sockets(set, least)
        };
        let hints = sets.into_iter().map(|set| Hint::of(set, preferred(set))).collect();
        Hints::from([(CPU.to_owned(), Some(hints))])
    }

    /// Whether the nodes are on as few sockets as `least` nodes need (`isHintSocketAligned`).
    fn on_few_sockets(&self, nodes: NodeSet, least: usize) -> bool {
        let per_socket = self.topology.nodes().len() / self.topology.sockets().len().max(1);
        per_socket > 0 && self.topology.sockets_of_nodes(nodes).len() == least.div_ceil(per_socket)
    }
}

/// The hints of CPUs that cannot be aligned.
fn not_aligned() -> Hints {
    Hints::from([(CPU.to_owned(), Some(Vec::new()))])
}
