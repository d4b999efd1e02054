//! Merging gives what walking every combination of hints gives, with the kubelet's comparison step by step.

use proptest::prelude::*;

use super::*;
use crate::NumaNode;

/// `HintMerger.compare`, whose order of arguments is that of the walk.
fn compare(merger: &Merger, widest: usize, current: Option<Hint>, candidate: Hint) -> Option<Hint> {
    let nodes = candidate.affinity.filter(|nodes| !nodes.is_empty());
    let (Some(nodes), Some(now)) = (nodes, current) else { return nodes.map(|_| candidate).or(current) };
    let own = now.affinity?;
    let fitter = if merger.by_fitness(nodes, own).is_lt() { candidate } else { now };
    let (count, best) = (nodes.len(), own.len());
    Some(match (now.preferred, candidate.preferred) {
        (false, true) => candidate,
        (true, false) => now,
        (true, true) => fitter,
        (false, false) if best > widest => fitter,
        (false, false) if best == widest => {
            if count == widest {
                fitter
            } else {
                now
            }
        }
        (false, false) if count > widest => now,
        (false, false) if count == widest || count > best => candidate,
        (false, false) if count < best => now,
        (false, false) => fitter,
    })
}

/// The best of every combination, as `HintMerger.Merge` walks them.
fn walked(merger: &Merger, providers: &[Hints]) -> Hint {
    let all = merger.distances.nodes();
    let mut resources = resources(providers);
    if merger.settings.policy == Policy::SingleNumaNode {
        resources.iter_mut().for_each(|resource| resource.hints.retain(is_single));
    }
    let widest = widest_of_narrowest(&resources);
    let mut combinations: Vec<Vec<Hint>> = vec![Vec::new()];
    for resource in &resources {
        let with = |known: &Vec<Hint>| {
            resource.hints.iter().map(|hint| [known.as_slice(), &[*hint]].concat()).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    let merged = combinations.iter().map(|hints| {
        let named: Vec<NodeSet> = hints.iter().filter_map(|hint| hint.affinity).collect();
        let same = named.iter().all(|nodes| *nodes == named[0]);
        let nodes = named.iter().fold(all, |merged, nodes| merged.and(*nodes));
        Hint::of(nodes, same && hints.iter().all(|hint| hint.preferred))
    });
    let best = merged.fold(None, |best, candidate| compare(merger, widest, best, candidate));
    let best = best.unwrap_or(Hint::of(all, false));
    match merger.settings.policy == Policy::SingleNumaNode && best.affinity == Some(all) {
        true => Hint { affinity: None, ..best },
        false => best,
    }
}

fn hints() -> impl Strategy<Value = Option<Vec<Hint>>> {
    let nodes = |bits: u32| (0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| bit * 2).collect::<NodeSet>();
    let hint = (prop::option::weighted(0.9, 1..16u32), any::<bool>());
    let hint = hint.prop_map(move |(bits, preferred)| Hint { affinity: bits.map(nodes), preferred });
    prop::option::weighted(0.9, prop::collection::vec(hint, 0..7))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_walking_every_combination(
        providers in prop::collection::vec(prop::collection::btree_map("[abc]", hints(), 0..3), 0..4),
        policy in prop::sample::select(vec![Policy::BestEffort, Policy::Restricted, Policy::SingleNumaNode]),
        prefer_closest in any::<bool>(),
        far in prop::collection::vec(11..40u64, 16),
    ) {
        let node = |at: u32| NumaNode {
            id: at * 2,
            memory_bytes: 0,
            huge_pages: Vec::new(),
            distances: (0..4).map(|to| if at == to { 10 } else { far[(at.min(to) * 4 + at.max(to)) as usize] }).collect(),
        };
        let distances = Distances::of(&(0..4).map(node).collect::<Vec<_>>());
        let settings = Settings { policy, prefer_closest, ..Settings::default() };
        let merger = Merger::new(settings, distances);
        let merged = merger.merge(&providers);
        prop_assert_eq!(merged.hint, walked(&merger, &providers));
        prop_assert_eq!(merged.admit, policy == Policy::BestEffort || merged.hint.preferred);
        prop_assert_eq!(merged.admit, merged.unaligned.is_empty());
    }
}
