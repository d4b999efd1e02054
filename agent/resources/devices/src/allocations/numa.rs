//! Chooses devices by NUMA node. The kubelet leaves this to the topology manager's hints
//! (`filterByAffinity`), and takes any devices if there are none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Id of a device that can be taken, with its NUMA nodes if they are known.
pub(super) type Candidate<'a> = (&'a str, Option<&'a BTreeSet<i64>>);

/// The devices of one resource that a container still needs, and the candidates for them, sorted by id.
#[derive(Debug)]
pub(super) struct Want<'a> {
    pub need: usize,
    pub candidates: Vec<Candidate<'a>>,
}

/// Chooses as many devices as `wants[0]` needs from its candidates, or all of them if they are fewer.
///
/// From one node if any has enough, preferring a node that also has enough for all other wants, then the node
/// on which the container has most devices already (`near`: devices by node), then the fullest. If no node
/// has enough, from as few nodes as possible. Devices without a node come last. On a node, devices are chosen
/// by id. A want none of whose candidates has a node fits every node.
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
