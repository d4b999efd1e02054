//! The search gives what walking every combination of NUMA nodes and every subset for the rest gives.

use proptest::prelude::*;

use super::*;

/// Calls `each` with every combination of `size` of the indexes, in lexical order.
fn every(indexes: &[usize], size: usize, chosen: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) {
    if chosen.len() == size {
        return each(chosen);
    }
    for (at, index) in indexes.iter().enumerate() {
        chosen.push(*index);
        every(&indexes[at + 1..], size, chosen, each);
        chosen.pop();
    }
}

/// As the kubelet searches, without its faults.
fn walked(search: &Search<'_>) -> Option<(u64, Vec<usize>, Vec<usize>)> {
    let all: Vec<usize> = (0..search.counts.len()).collect();
    let mut best: Option<(u64, Vec<usize>, Vec<usize>)> = None;
    every(&all, search.size, &mut Vec::new(), &mut |nodes| {
        let own: Vec<usize> = nodes.iter().map(|node| search.counts[*node]).collect();
        let groups: usize = own.iter().map(|count| count / search.group).sum();
        let enough = own.iter().sum::<usize>() >= search.wanted && groups * search.group >= search.wanted;
        if !enough || own.iter().any(|count| *count < search.each) {
            return;
        }
        let mut left = search.counts.to_vec();
        nodes.iter().for_each(|node| left[*node] -= search.each);
        let mut local: Option<(u64, Vec<usize>)> = None;
        if search.rest == 0 {
            local = Some((search.balance.score(squares(&left)), Vec::new()));
        }
        let givers: Vec<usize> = nodes.iter().copied().filter(|node| left[*node] >= search.group).collect();
        for size in (1..=givers.len()).rev().filter(|_| search.rest > 0) {
            every(&givers, size, &mut Vec::new(), &mut |subset| {
                let (mut after, mut rest) = (left.clone(), search.rest);
                while rest > 0 && subset.iter().any(|node| after[*node] >= search.group) {
                    for node in subset {
                        if rest > 0 && after[*node] >= search.group {
                            after[*node] -= search.group;
                            rest -= search.group;
                        }
                    }
                }
                let score = search.balance.score(squares(&after));
                if rest == 0 && local.as_ref().is_none_or(|best| score < best.0) {
                    local = Some((score, subset.to_vec()));
                }
            });
        }
        if let Some((score, rest)) = local.filter(|local| best.as_ref().is_none_or(|best| local.0 < best.0)) {
            best = Some((score, nodes.to_vec(), rest));
        }
    });
    best
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_search_is_walking_every_combination(
        counts in prop::collection::vec(1..12usize, 1..=6),
        share in 1..=100usize,
        group in 1..=3usize,
        size in 1..=6usize,
    ) {
        let size = size.min(counts.len());
        let wanted = counts.iter().sum::<usize>() * share / 100 / group * group;
        prop_assume!(wanted > 0);
        let search = Search::new(&counts, wanted, group, size);
        let found = search.run().map(|choice| (choice.score, choice.nodes, choice.rest));
        prop_assert_eq!(found, walked(&search));
    }
}
