//! From which NUMA nodes a container or pod could have its devices (kubelet
//! `devicemanager/topology_hints.go`).

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_topology::{Hint, Hints, NodeSet};

use super::{PodPlan, Pool};

impl PodPlan {
    /// Hints for a container that has not begun, while those before it have (`GetTopologyHints`): of a
    /// container that has its devices, for these. `wanted`: number of devices by resource; `all`: the
    /// machine's NUMA nodes.
    pub fn hints(&self, container: &str, wanted: &BTreeMap<String, usize>, all: NodeSet) -> Hints {
        let member = self.members.iter().position(|own| own.name == container);
        let each = wanted.iter().filter_map(|(resource, wanted)| {
            let pool = self.pools.get(resource)?;
            let has = member.and_then(|member| self.members[member].has.get(resource));
            let slot =
                self.slots.iter().find(|slot| Some(slot.member) == member && slot.resource == *resource);
            let reusable: BTreeSet<&str> = slot.map(|slot| self.reusable(slot)).unwrap_or_default();
            Some((resource.clone(), pool.hints(has, &reusable, *wanted, all)))
        });
        each.collect()
    }

    /// Hints for the pod as a whole (`GetPodTopologyHints`).
    pub fn pod_hints(&self, wanted: &BTreeMap<String, usize>, all: NodeSet) -> Hints {
        let each = wanted.iter().filter_map(|(resource, wanted)| {
            let pool = self.pools.get(resource)?;
            let has: BTreeSet<String> =
                self.members.iter().filter_map(|own| own.has.get(resource)).flatten().cloned().collect();
            let has = Some(&has).filter(|has| !has.is_empty());
            Some((resource.clone(), pool.hints(has, &BTreeSet::new(), *wanted, all)))
        });
        each.collect()
    }
}

impl Pool {
    /// `None`: no device of the resource has a node. An empty list: there are not as many devices.
    fn hints(
        &self,
        has: Option<&BTreeSet<String>>,
        reusable: &BTreeSet<&str>,
        wanted: usize,
        all: NodeSet,
    ) -> Option<Vec<Hint>> {
        if !self.has_nodes() {
            return None;
        }
        if let Some(has) = has {
            let ids: BTreeSet<&str> = has.iter().map(String::as_str).collect();
            return Some(if ids.len() == wanted {
                self.of(&ids, &BTreeSet::new(), wanted, all)
            } else {
                Vec::new()
            });
        }
        let free: BTreeSet<&str> =
            self.free.iter().map(String::as_str).filter(|id| !reusable.contains(id)).collect();
        match free.len() + reusable.len() < wanted {
            true => Some(Vec::new()),
            false => Some(self.of(&free, reusable, wanted, all)),
        }
    }

    /// Every set of NUMA nodes that has all of `reusable` and, with `free`, enough devices. Preferred are
    /// those with as few nodes as are needed when all devices of the resource are free
    /// (`generateDeviceTopologyHints`).
    fn of(&self, free: &BTreeSet<&str>, reusable: &BTreeSet<&str>, wanted: usize, all: NodeSet) -> Vec<Hint> {
        let by_nodes = |ids: &mut dyn Iterator<Item = &str>| {
            let mut counts: BTreeMap<NodeSet, usize> = BTreeMap::new();
            ids.for_each(|id| *counts.entry(self.nodes_of(id)).or_default() += 1);
            counts
        };
        let listed = by_nodes(&mut self.list.keys().map(String::as_str));
        let usable = by_nodes(&mut free.iter().chain(reusable).copied());
        let bound = by_nodes(&mut reusable.iter().copied());
        let within = |counts: &BTreeMap<NodeSet, usize>, set: NodeSet| -> usize {
            counts.iter().filter(|(nodes, _)| !nodes.and(set).is_empty()).map(|(_, count)| count).sum()
        };
        let (mut least, mut sets) = (all.len(), Vec::new());
        all.for_each_subset(|set| {
            if within(&listed, set) >= wanted {
                least = least.min(set.len());
            }
            let has_reusable = bound.keys().all(|nodes| nodes.is_empty() || !nodes.and(set).is_empty());
            if has_reusable && within(&usable, set) >= wanted {
                sets.push(set);
            }
        });
        sets.into_iter().map(|set| Hint::of(set, set.len() == least)).collect()
    }
}

#[cfg(test)]
mod tests;
