//! Which sets of nodes can be the intersection of one hint of each list.
//!
//! The kubelet walks every combination of hints, which with 8 NUMA nodes and four resources are 255⁴. The result only
//! depends on which intersections occur, and there are no more of them than sets of nodes. For few nodes they
//! are counted by a zeta transform over supersets: the number of pairs whose intersection contains `m` is the product
//! of the numbers of hints that contain `m`.

use std::collections::BTreeSet;

use crate::NodeSet;

/// Up to how many nodes there is a counter for every set of them.
const MOST_COUNTED: usize = 20;

/// The intersections of `all` with one set of each list. An empty list has none, so that there is no result.
pub(crate) fn intersections(all: NodeSet, lists: &[Vec<NodeSet>]) -> Vec<NodeSet> {
    let mut reached = vec![all];
    for list in lists {
        let distinct: BTreeSet<NodeSet> = list.iter().map(|set| set.and(all)).collect();
        let pairs = reached.len().saturating_mul(distinct.len());
        let counted = all.len() << all.len().min(MOST_COUNTED);
        reached = if all.len() <= MOST_COUNTED && pairs > counted {
            by_counting(all, &reached, &distinct)
        } else {
            let pair = |set: &NodeSet| distinct.iter().map(move |other| set.and(*other)).collect::<Vec<_>>();
            reached.iter().flat_map(pair).collect::<BTreeSet<_>>().into_iter().collect()
        };
    }
    reached
}

/// The intersections of every pair, by counters.
fn by_counting(all: NodeSet, left: &[NodeSet], right: &BTreeSet<NodeSet>) -> Vec<NodeSet> {
    let nodes: Vec<u32> = all.iter().collect();
    let squeeze = |set: &NodeSet| {
        nodes
            .iter()
            .enumerate()
            .fold(0usize, |bits, (at, node)| bits | usize::from(set.contains(*node)) << at)
    };
    let spread = |bits: usize| -> NodeSet {
        nodes.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, node)| *node).collect()
    };
    let counters = |sets: &mut dyn Iterator<Item = &NodeSet>| {
        let mut counters = vec![0i64; 1 << nodes.len()];
        sets.for_each(|set| counters[squeeze(set)] = 1);
        transform(&mut counters, nodes.len(), 1);
        counters
    };
    let mut product = counters(&mut left.iter());
    let other = counters(&mut right.iter());
    product.iter_mut().zip(other).for_each(|(count, other)| *count *= other);
    transform(&mut product, nodes.len(), -1);
    product.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bits, _)| spread(bits)).collect()
}

/// Adds to each counter (with sign 1) those of its supersets, or takes them away again (with sign -1).
fn transform(counters: &mut [i64], nodes: usize, sign: i64) {
    for bit in 0..nodes {
        for at in 0..counters.len() {
            if at >> bit & 1 == 0 {
                counters[at] += sign * counters[at | 1 << bit];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Both ways give what walking every pair gives.
        #[test]
        fn intersections_are_those_of_every_pair(
            left in prop::collection::btree_set(1..256u32, 1..40),
            right in prop::collection::btree_set(1..256u32, 1..40),
        ) {
            // The nodes are 0, 3, 6 …, so that their numbers have gaps.
            let spread = |bits: &u32| (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| bit * 3).collect::<NodeSet>();
            let all: NodeSet = (0..8).map(|bit| bit * 3).collect();
            let (left, right): (Vec<_>, Vec<_>) = (left.iter().map(spread).collect(), right.iter().map(spread).collect());
            let expected: BTreeSet<_> =
                left.iter().flat_map(|a| right.iter().map(move |b| a.and(*b))).collect();
            let counted: BTreeSet<_> = by_counting(all, &left, &right.iter().copied().collect()).into_iter().collect();
            prop_assert_eq!(&counted, &expected);
            let found: BTreeSet<_> = intersections(all, &[left, right]).into_iter().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
