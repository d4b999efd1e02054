//! Which devices, by NUMA nodes: the kubelet leaves it to the topology manager's hints (`filterByAffinity`), and takes
//! any where there are none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A device that could be taken, with its nodes.
pub(super) type Candidate<'a> = (&'a str, Option<&'a BTreeSet<i64>>);

/// What a container still wants of one resource, and what of it could be had, by id.
#[derive(Debug)]
pub(super) struct Want<'a> {
    pub need: usize,
    pub candidates: Vec<Candidate<'a>>,
}

/// Chooses what `wants[0]` needs from its candidates, or all of them if they are fewer.
///
/// From one node if any can hold it, rather one that can hold all the other wants too, then one on which the container
/// has most already (`near`: devices by node), then the fullest. Where none can, from as few nodes as possible. Devices
/// of no node are the last. On a node by id. A want none of whose candidates has a node is content with every node.
pub(super) fn pick<'a>(wants: &[Want<'a>], near: &BTreeMap<i64, usize>) -> Vec<&'a str> {
    let Some((own, others)) = wants.split_first() else { return Vec::new() };
    let others: Vec<_> = others.iter().map(|want| (want.need, by_node(&want.candidates))).collect();
    let mut left = own.candidates.clone();
    let (mut picked, mut near) = (Vec::new(), near.clone());
    while picked.len() < own.need && !left.is_empty() {
        let rest = own.need - picked.len();
        let nodes = by_node(&left);
        let rank = |(&node, &count): (&i64, &usize)| {
            let others_fit = others.iter().all(|(need, nodes)| {
                *need == 0 || nodes.is_empty() || nodes.get(&node).is_some_and(|count| count >= need)
            });
            let total = count + others.iter().filter_map(|(_, nodes)| nodes.get(&node)).sum::<usize>();
            let near = near.get(&node).copied().unwrap_or(0);
            match count >= rest {
                true => (usize::from(!others_fit), Reverse(0), Reverse(near), total, node),
                false => (2, Reverse(count), Reverse(near), total, node),
            }
        };
        let node = nodes.iter().map(rank).min().map(|rank| rank.4);
        let here = |candidate: &Candidate<'_>| {
            node.is_none_or(|node| candidate.1.is_some_and(|nodes| nodes.contains(&node)))
        };
        let mut room = rest;
        left.retain(|candidate| {
            let take = room > 0 && here(candidate);
            if take {
                room -= 1;
                picked.push(candidate.0);
                candidate.1.into_iter().flatten().for_each(|node| *near.entry(*node).or_default() += 1);
            }
            !take
        });
    }
    picked
}

fn by_node(candidates: &[Candidate<'_>]) -> BTreeMap<i64, usize> {
    let mut nodes = BTreeMap::new();
    for node in candidates.iter().filter_map(|(_, nodes)| *nodes).flatten() {
        *nodes.entry(*node).or_default() += 1;
    }
    nodes
}
