//! Which sets of nodes can be the intersection of one hint of each list.
//!
//! The kubelet walks every combination of hints, which with 8 NUMA nodes and four resources are 255⁴. The
//! result only depends on which intersections occur, and there are no more of them than sets of nodes. For
//! few nodes they are counted by a zeta transform over supersets: the number of pairs whose intersection
//! contains `m` is the product of the numbers of hints that contain `m`.

use std::collections::BTreeSet;

use crate::NodeSet;

/// Up to how many nodes there is a counter for every set of them.
const MOST_COUNTED: usize = 20;

/// The intersections of `all` with one set of each list. An empty list has none, so that there is no result.
pub(crate) fn intersections(all: NodeSet, lists: &[Vec<NodeSet>]) -> Vec<NodeSet> {
    if all.len() > MOST_COUNTED {
        let pairs = |reached: BTreeSet<NodeSet>, list: &Vec<NodeSet>| {
            reached.iter().flat_map(|set| list.iter().map(|other| set.and(*other))).collect()
        };
        return lists.iter().fold(BTreeSet::from([all]), pairs).into_iter().collect();
    }
    let mut reached = vec![all.squeezed(all)];
    for list in lists {
        let own = Marks::of(all, list.iter().map(|set| set.squeezed(all))).marked();
        reached = if reached.len().saturating_mul(own.len()) <= all.len() << all.len() {
            let pairs = reached.iter().flat_map(|set| own.iter().map(move |other| set & other));
            Marks::of(all, pairs).marked()
        } else {
            by_counting(all, &reached, &own)
        };
    }
    reached.into_iter().map(|bits| NodeSet::spread(bits, all)).collect()
}

/// A counter for every set of nodes.
struct Marks(Vec<i64>);

impl Marks {
    /// 1 for each of these sets.
    fn of(all: NodeSet, sets: impl Iterator<Item = usize>) -> Self {
        let mut counters = vec![0; 1 << all.len()];
        sets.for_each(|set| counters[set] = 1);
        Self(counters)
    }

    /// The sets whose counter is not 0.
    fn marked(&self) -> Vec<usize> {
        self.0.iter().enumerate().filter(|(_, count)| **count != 0).map(|(set, _)| set).collect()
    }
}

/// The intersections of every pair, by counters.
fn by_counting(all: NodeSet, left: &[usize], right: &[usize]) -> Vec<usize> {
    let mut product = Marks::of(all, left.iter().copied());
    let mut other = Marks::of(all, right.iter().copied());
    transform(&mut product.0, 1);
    transform(&mut other.0, 1);
    product.0.iter_mut().zip(other.0).for_each(|(count, other)| *count *= other);
    transform(&mut product.0, -1);
    product.marked()
}

/// Adds to each counter (with sign 1) those of its supersets, or takes them away again (with sign -1).
fn transform(counters: &mut [i64], sign: i64) {
    let mut half = 1;
    while half < counters.len() {
        for block in counters.chunks_exact_mut(2 * half) {
            let (without, with) = block.split_at_mut(half);
            without.iter_mut().zip(with).for_each(|(less, more)| *less += sign * *more);
        }
        half *= 2;
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
            let squeezed = |sets: &[NodeSet]| sets.iter().map(|set| set.squeezed(all)).collect::<Vec<_>>();
            let counted = by_counting(all, &squeezed(&left), &squeezed(&right)).into_iter();
            let counted: BTreeSet<_> = counted.map(|bits| NodeSet::spread(bits, all)).collect();
            prop_assert_eq!(&counted, &expected);
            let found: BTreeSet<_> = intersections(all, &[left, right]).into_iter().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
