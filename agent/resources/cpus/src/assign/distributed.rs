//! Spreads CPUs evenly over NUMA nodes (KEP-2902).
//!
//! The kubelet walks every combination of NUMA nodes and in each every subset that could give the rest, which
//! is exponential in the nodes. The score of a combination only depends on the numbers of its nodes' free
//! CPUs. So here only the first combination of those with the same numbers is looked at, and none that cannot
//! beat the best one even if its rest were taken in the best way. The answer is the same.

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::{CpuTopology, Unit};

use super::balance::{Balance, least_squares, squares};
use super::collect::Collector;
use super::{NotEnough, Sorting, packed};

/// Takes `wanted` CPUs of `free`, evenly from as few NUMA nodes as possible and in groups of `group` CPUs;
/// what cannot be distributed evenly comes from those nodes that leave free CPUs as even as possible.
/// [`packed`] is used when `wanted` is no multiple of `group`, or no nodes fit
/// (`takeByTopologyNUMADistributed`).
///
/// # Errors
/// When fewer are free.
pub fn distributed(
    topology: &CpuTopology,
    free: &CpuSet,
    wanted: usize,
    group: usize,
    sorting: Sorting,
) -> Result<CpuSet, NotEnough> {
    let group = group.max(1);
    if wanted == 0 || !wanted.is_multiple_of(group) {
        return packed(topology, free, wanted, sorting, false);
    }
    let mut collector = Collector::new(topology, free, wanted);
    if wanted > collector.free_count() {
        return Err(NotEnough { requested: wanted, available: free.len() });
    }
    let nodes = collector.nodes();
    let counts: Vec<usize> = nodes.iter().map(|node| collector.free().common(&node.cpus)).collect();
    let groups = wanted.div_ceil(group);
    let per_node = topology.all().len().div_ceil(group).div_ceil(topology.nodes().len());
    for size in groups.div_ceil(per_node)..=groups.min(nodes.len()) {
        let search = Search::new(&counts, wanted, group, size);
        let Some(choice) = search.run() else { continue };
        let take = |collector: &mut Collector<'_>, node: &Unit, number: usize| {
            let here = collector.free().intersection(&node.cpus);
            let cpus = packed(topology, &here, number, sorting, false)?;
            collector.take(&cpus);
            Ok(())
        };
        for node in &choice.nodes {
            take(&mut collector, nodes[*node], search.each)?;
        }
        let mut rest = search.rest;
        while rest > 0 {
            let before = rest;
            for node in &choice.rest {
                if rest > 0 && collector.free().common(&nodes[*node].cpus) >= group {
                    take(&mut collector, nodes[*node], group)?;
                    rest -= group;
                }
            }
            debug_assert!(rest < before, "the nodes were chosen so that they have the rest");
            if rest == before {
                return packed(topology, free, wanted, sorting, false);
            }
        }
        return Ok(collector.taken());
    }
    packed(topology, free, wanted, sorting, false)
}

/// The nodes that were chosen, as indexes.
#[derive(Debug, Clone)]
struct Choice {
    score: u64,
    nodes: Vec<usize>,
    /// Those that give the rest, in turns.
    rest: Vec<usize>,
}

/// Looks for the best combination of `size` nodes.
struct Search<'a> {
    /// Free CPUs by node.
    counts: &'a [usize],
    wanted: usize,
    group: usize,
    size: usize,
    /// How many CPUs come from each node.
    each: usize,
    /// How many CPUs come on top, in groups.
    rest: usize,
    balance: Balance,
}

impl<'a> Search<'a> {
    fn new(counts: &'a [usize], wanted: usize, group: usize, size: usize) -> Self {
        let each = wanted / size / group * group;
        let left = counts.iter().sum::<usize>() - wanted;
        Self {
            counts,
            wanted,
            group,
            size,
            each,
            rest: wanted - each * size,
            balance: Balance::new(counts.len(), left),
        }
    }

    /// The best combination; of equally good ones the first. `None` if none has enough.
    fn run(&self) -> Option<Choice> {
        let mut best = None;
        first_of_alikes(self.counts, self.size, &mut Vec::new(), 0, &mut |combination| {
            if best.as_ref().is_some_and(|best: &Choice| best.score == 0) {
                return false;
            }
            if let Some(choice) = self.rate(combination, best.as_ref().map(|best| best.score)) {
                best = Some(choice);
            }
            true
        });
        best
    }

    /// A combination with the best nodes for the rest, if it beats `limit`.
    fn rate(&self, nodes: &[usize], limit: Option<u64>) -> Option<Choice> {
        let own: usize = nodes.iter().map(|node| self.counts[*node]).sum();
        let groups: usize = nodes.iter().map(|node| self.counts[*node] / self.group).sum();
        if own < self.wanted
            || groups * self.group < self.wanted
            || nodes.iter().any(|node| self.counts[*node] < self.each)
        {
            return None;
        }
        let mut left = self.counts.to_vec();
        nodes.iter().for_each(|node| left[*node] -= self.each);
        let beats = |score: u64, limit: Option<u64>| limit.is_none_or(|limit| score < limit);
        if self.rest == 0 {
            let score = self.balance.score(squares(&left));
            return beats(score, limit).then(|| Choice { score, nodes: nodes.to_vec(), rest: Vec::new() });
        }
        let givers: Vec<usize> = nodes.iter().copied().filter(|node| left[*node] >= self.group).collect();
        let of_givers: Vec<usize> = givers.iter().map(|node| left[*node]).collect();
        let others = squares(&left) - squares(&of_givers);
        let least = least_squares(&of_givers, self.rest / self.group, self.group)?;
        let bound = self.balance.score(others + least);
        if !beats(bound, limit) {
            return None;
        }
        let mut best: Option<(u64, Vec<usize>)> = None;
        for size in (1..=givers.len()).rev() {
            first_of_alikes(&of_givers, size, &mut Vec::new(), 0, &mut |subset| {
                let score =
                    self.after_rest(&of_givers, subset).map(|squares| self.balance.score(others + squares));
                if let Some(score) = score.filter(|score| beats(*score, best.as_ref().map(|best| best.0))) {
                    best = Some((score, subset.to_vec()));
                }
                best.as_ref().is_none_or(|best| best.0 > bound)
            });
        }
        let (score, subset) = best.filter(|(score, _)| beats(*score, limit))?;
        let rest = subset.into_iter().map(|at| givers[at]).collect();
        Some(Choice { score, nodes: nodes.to_vec(), rest })
    }

    /// The sum of squares of `counts` after these nodes gave the rest in turns; `None` if they have not as
    /// much. (The kubelet never comes back from the case that a node's last CPUs are less than a group.)
    fn after_rest(&self, counts: &[usize], subset: &[usize]) -> Option<usize> {
        let mut left = counts.to_vec();
        let mut rest = self.rest;
        while rest > 0 {
            let before = rest;
            for node in subset {
                if rest > 0 && left[*node] >= self.group {
                    left[*node] -= self.group;
                    rest -= self.group;
                }
            }
            if rest == before {
                return None;
            }
        }
        Some(squares(&left))
    }
}

/// Calls `each` with combinations of `size` indexes of `counts` in lexical order, until it returns false. Of
/// those with the same sequence of counts only the first one. Returns false when it was ended.
fn first_of_alikes(
    counts: &[usize],
    size: usize,
    chosen: &mut Vec<usize>,
    from: usize,
    each: &mut impl FnMut(&[usize]) -> bool,
) -> bool {
    if chosen.len() == size {
        return each(chosen);
    }
    let missing = size - chosen.len();
    for at in from..=counts.len().saturating_sub(missing) {
        if at >= counts.len() || counts[from..at].contains(&counts[at]) {
            continue;
        }
        chosen.push(at);
        let go_on = first_of_alikes(counts, size, chosen, at + 1, each);
        chosen.pop();
        if !go_on {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
