//! One affinity for all resources of a container or pod.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::reachable::intersections;
use crate::{Distances, Hint, Hints, NodeSet, Policy, Settings};

/// Merges the hints of all providers (`topologymanager.HintMerger`).
#[derive(Debug, Clone, Default)]
pub struct Merger {
    settings: Settings,
    distances: Distances,
}

/// The result of merging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// From where every provider has to allocate.
    pub hint: Hint,
    /// Whether the policy admits it.
    pub admit: bool,
    /// When it is not admitted: the resources that cannot be aligned. Those that have no hint that the policy
    /// accepts, or, if each has one, all that the providers have hints for: together they do not fit.
    pub unaligned: Vec<String>,
}

/// The hints of one resource.
struct Resource<'a> {
    name: &'a str,
    hints: Vec<Hint>,
}

impl Merger {
    /// A merger for these settings and NUMA nodes.
    pub fn new(settings: Settings, distances: Distances) -> Self {
        Self { settings, distances }
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Finds the best nodes for one hint of each resource, and whether the policy admits them. With policy
    /// `none` every node is as good, and everything is admitted.
    ///
    /// The answer is the kubelet's; it does not depend on the order of hints, because the kubelet's
    /// comparison (`HintMerger.compare`) orders all candidates: preferred ones first, then [`Self::order`].
    pub fn merge(&self, providers: &[Hints]) -> Merged {
        let policy = self.settings.policy;
        if policy == Policy::None {
            return Merged {
                hint: Hint { affinity: None, preferred: false },
                admit: true,
                unaligned: Vec::new(),
            };
        }
        let all = self.distances.nodes();
        let mut resources = resources(providers);
        if policy == Policy::SingleNumaNode {
            resources.iter_mut().for_each(|resource| resource.hints.retain(is_single));
        }
        let mut hint = self.best(all, &resources);
        if policy == Policy::SingleNumaNode && hint.affinity == Some(all) {
            hint.affinity = None;
        }
        let admit = policy == Policy::BestEffort || hint.preferred;
        let unaligned = if admit { Vec::new() } else { unaligned(&resources, providers) };
        Merged { hint, admit, unaligned }
    }

    fn best(&self, all: NodeSet, resources: &[Resource<'_>]) -> Hint {
        let merged = preferred(resources).into_iter().map(|nodes| nodes.unwrap_or(all).and(all));
        let merged = merged.filter(|nodes| !nodes.is_empty());
        if let Some(nodes) = merged.min_by(|a, b| self.by_fitness(*a, *b)) {
            return Hint::of(nodes, true);
        }
        let widest = widest_of_narrowest(resources);
        let affinity = |hint: &Hint| hint.affinity.unwrap_or(all);
        let lists: Vec<Vec<NodeSet>> =
            resources.iter().map(|resource| resource.hints.iter().map(affinity).collect()).collect();
        let merged = intersections(all, &lists).into_iter().filter(|nodes| !nodes.is_empty());
        Hint::of(merged.min_by(|a, b| self.order(*a, *b, widest)).unwrap_or(all), false)
    }

    /// The order of candidates of which none is preferred: as many nodes as the resource needs that needs
    /// most (`BestNonPreferredAffinityCount`), else the most nodes below that, else the fewest above it.
    fn order(&self, a: NodeSet, b: NodeSet, widest: usize) -> Ordering {
        let rank = |nodes: NodeSet| match nodes.len().cmp(&widest) {
            Ordering::Equal => (0, 0),
            Ordering::Less => (1, widest - nodes.len()),
            Ordering::Greater => (2, 0),
        };
        rank(a).cmp(&rank(b)).then_with(|| self.by_fitness(a, b))
    }

    /// Fewer nodes first; then, if that is configured, those closer to each other; then lower numbers.
    fn by_fitness(&self, a: NodeSet, b: NodeSet) -> Ordering {
        let closest = self.settings.prefer_closest && self.settings.policy != Policy::SingleNumaNode;
        if closest && a.len() == b.len() {
            let far = |nodes| self.distances.average(nodes);
            return far(a).total_cmp(&far(b)).then_with(|| a.by_width(b));
        }
        a.by_width(b)
    }
}

/// The hints of each resource. Where it does not matter there is one hint for any node, and where a resource
/// cannot be aligned one that is not preferred (`filterProvidersHints`).
fn resources(providers: &[Hints]) -> Vec<Resource<'_>> {
    let one = |hints: &Option<Vec<Hint>>| match hints {
        None => vec![Hint::ANY],
        Some(hints) if hints.is_empty() => vec![Hint { affinity: None, preferred: false }],
        Some(hints) => hints.clone(),
    };
    let mut resources = Vec::new();
    for provider in providers {
        resources.extend(provider.iter().map(|(name, hints)| Resource { name, hints: one(hints) }));
    }
    resources
}

/// What every resource has as a preferred hint of its own, with the same nodes: only that is preferred as a
/// whole (`mergePermutation`). `None`: any nodes.
fn preferred(resources: &[Resource<'_>]) -> BTreeSet<Option<NodeSet>> {
    let mut common: Option<BTreeSet<Option<NodeSet>>> = None;
    for resource in resources {
        let own = resource.hints.iter().filter(|hint| hint.preferred).map(|hint| hint.affinity);
        let own: BTreeSet<Option<NodeSet>> = own.collect();
        common = Some(match common {
            None => own,
            Some(common) => match (common.contains(&None), own.contains(&None)) {
                (true, true) => &common | &own,
                (true, false) => own,
                (false, true) => common,
                (false, false) => &common & &own,
            },
        });
    }
    common.unwrap_or_else(|| BTreeSet::from([None]))
}

/// Whether a hint is for one node, or for any (`filterSingleNumaHints`).
fn is_single(hint: &Hint) -> bool {
    hint.preferred && hint.affinity.is_none_or(|nodes| nodes.len() == 1)
}

/// The number of nodes of the narrowest hint of that resource of which it is greatest
/// (`maxOfMinAffinityCounts`).
fn widest_of_narrowest(resources: &[Resource<'_>]) -> usize {
    let narrowest = |resource: &Resource<'_>| {
        resource.hints.iter().filter_map(|hint| hint.affinity).map(NodeSet::len).min()
    };
    resources.iter().filter_map(narrowest).max().unwrap_or(0)
}

fn unaligned(resources: &[Resource<'_>], providers: &[Hints]) -> Vec<String> {
    let never = resources.iter().filter(|resource| !resource.hints.iter().any(|hint| hint.preferred));
    let never: Vec<String> = never.map(|resource| resource.name.to_owned()).collect();
    if !never.is_empty() {
        return never;
    }
    let with_hints = providers.iter().flatten().filter(|(_, hints)| hints.is_some());
    with_hints.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests;
