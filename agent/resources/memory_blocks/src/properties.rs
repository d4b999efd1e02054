//! What holds for every machine and sequence of admissions, removals and restarts.

use std::collections::BTreeMap;

use nodewarden_manifest::Pod;
use nodewarden_topology::fixture::{equally_far, guaranteed};
use nodewarden_topology::{HugePages, Merger, NodeSet, NumaNode, Settings as Merging, admit};
use proptest::prelude::*;

use crate::{Finding, MemoryManager, Reserved, Settings, StateFile};

const MIB: u64 = 1 << 20;

#[derive(Debug, Clone)]
enum Step {
    /// A pod arrives: containers as for [`guaranteed`], with memory as hundredths of a NUMA node.
    Admit(Vec<(bool, bool, u64)>),
    RemovePod(prop::sample::Index),
    RemoveContainer(prop::sample::Index, prop::sample::Index),
    /// The agent starts again, perhaps with less memory on every node.
    Restart(Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let container = (any::<bool>(), prop::bool::weighted(0.2), 1..250u64);
    let step = prop_oneof![
        6 => prop::collection::vec(container, 1..4).prop_map(Step::Admit),
        2 => any::<prop::sample::Index>().prop_map(Step::RemovePod),
        2 => (any::<prop::sample::Index>(), any::<prop::sample::Index>())
            .prop_map(|(pod, container)| Step::RemoveContainer(pod, container)),
        1 => prop::option::of(50..150u64).prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 1..14)
}

/// NUMA nodes with numbers that have gaps.
fn nodes(sizes: &[u64]) -> Vec<NumaNode> {
    let node = |(at, size): (usize, &u64)| NumaNode {
        id: at as u32 * 2,
        memory_bytes: size * MIB,
        huge_pages: vec![HugePages { size_kib: 2048, count: size / 16 }],
        distances: Vec::new(),
    };
    sizes.iter().enumerate().map(node).collect()
}

fn settings(nodes: &[NumaNode]) -> Settings {
    let reserved: Reserved = [(0, BTreeMap::from([("memory".to_owned(), 10 * MIB)]))].into();
    Settings::fixed(nodes, reserved).unwrap()
}

fn run(sizes: &[u64], policy: (&str, &str), steps: &[Step]) {
    let mut nodes_now = nodes(sizes);
    let all: NodeSet = nodes_now.iter().map(|node| node.id).collect();
    let merging = Merging::new(policy.0, policy.1, &BTreeMap::new(), all.len(), true).unwrap();
    let merger = Merger::new(merging, equally_far(all));
    let mut manager = MemoryManager::new(&nodes_now, settings(&nodes_now)).unwrap();
    let mut pods: Vec<Pod> = Vec::new();
    // Whether blocks are larger than the machine since a restart.
    let mut short = false;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Admit(containers) => {
                let scaled: Vec<_> = containers
                    .iter()
                    .map(|(init, sidecar, share)| (*init, *sidecar, 1, (share * sizes[0] / 100).max(1)))
                    .collect();
                let pod = guaranteed(&format!("p{at}"), &scaled);
                let before = manager.clone();
                match admit(&merger, &mut [&mut manager], &pod, false) {
                    Ok(()) => {
                        for container in pod.init_containers.iter().chain(&pod.containers) {
                            let own = manager.nodes_of(&pod.uid, &container.name).expect("it has memory");
                            let aligned = policy.0 != "single-numa-node" || own.len() == 1;
                            assert!(
                                aligned && own.is_subset(all),
                                "the hint for {} is honoured",
                                container.name
                            );
                        }
                        let mut after = manager.clone();
                        after.retain(|uid, _| uid != pod.uid);
                        assert_eq!(after.blocks(), before.blocks(), "removing gives back what was given");
                        assert!(
                            short || after.machine().agrees(before.machine()),
                            "removing gives back what was given"
                        );
                        pods.push(pod);
                    }
                    Err(_) => {
                        assert_eq!(manager.blocks(), before.blocks(), "a rejected pod has nothing");
                        assert!(
                            short || manager.machine().agrees(before.machine()),
                            "a rejected pod has nothing"
                        );
                    }
                }
            }
            Step::RemovePod(index) if !pods.is_empty() => {
                let pod = pods.remove(index.index(pods.len()));
                manager.retain(|uid, _| uid != pod.uid);
            }
            Step::RemoveContainer(pod, container) if !pods.is_empty() => {
                let pod = &pods[pod.index(pods.len())];
                let names: Vec<_> =
                    pod.init_containers.iter().chain(&pod.containers).map(|c| &c.name).collect();
                manager.remove(&pod.uid, names[container.index(names.len())]);
            }
            Step::RemovePod(_) | Step::RemoveContainer(..) => {}
            Step::Restart(share) => {
                let file = StateFile::read(&StateFile::of(&manager).write(false)).unwrap();
                assert_eq!(&file.blocks, manager.blocks());
                if let Some(share) = share {
                    let smaller: Vec<u64> = sizes.iter().map(|size| size * share / 100).collect();
                    nodes_now = nodes(&smaller);
                }
                let made = settings(&nodes_now);
                let (restored, findings) =
                    MemoryManager::restore(&nodes_now, made, &file.machine, &file.blocks).unwrap();
                assert_eq!(restored.blocks(), manager.blocks(), "what runs keeps its memory");
                assert!(short || share.is_some() || findings.is_empty(), "{findings:?}");
                short = findings.iter().any(|finding| matches!(finding, Finding::Short { .. }));
                manager = restored;
            }
        }
        for node in manager.machine().0.values() {
            let whole = |table: &crate::Table| table.free + table.reserved == table.allocatable;
            assert!(node.memory.values().all(whole), "{node:?}");
        }
        assert!(short || manager.is_consistent(), "{manager:?}");
    }
    let uids: Vec<String> = manager.blocks().containers.keys().cloned().collect();
    manager.retain(|_, _| false);
    let nothing = MemoryManager::new(&nodes_now, settings(&nodes_now)).unwrap();
    assert!(manager.machine().agrees(nothing.machine()), "all of {uids:?} is given back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// No memory is given twice, no node is in two groups, removing gives back what was given, a rejected pod
    /// keeps nothing, and restarting keeps what runs.
    #[test]
    fn sequences_keep_the_invariants(
        sizes in prop::collection::vec(64..4096u64, 1..=6),
        policy in prop::sample::select(vec![
            ("none", "container"), ("best-effort", "container"), ("best-effort", "pod"),
            ("restricted", "container"), ("restricted", "pod"), ("single-numa-node", "container"),
        ]),
        steps in steps(),
    ) {
        run(&sizes, policy, &steps);
    }
}
