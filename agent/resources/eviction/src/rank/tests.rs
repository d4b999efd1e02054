//! The kubelet's orders, and properties of every ranking.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use strum::IntoEnumIterator;

use super::*;
use nodewarden_manifest::{Pod, SYSTEM_CRITICAL_PRIORITY};

const LAYOUTS: [DiskLayout; 4] =
    [DiskLayout::One, DiskLayout::ImagesApart, DiskLayout::ContainersOnNode, DiskLayout::Three];

/// A pod with requests of memory and of storage, in bytes; 0 is none.
fn candidate(name: &str, priority: i32, memory: u64, storage: u64) -> Candidate {
    let mut requests = serde_json::Map::new();
    for (resource, amount) in [("memory", memory), ("ephemeral-storage", storage)] {
        if amount > 0 {
            requests.insert(resource.to_owned(), json!(amount.to_string()));
        }
    }
    let pod = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"priority": priority, "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
    });
    Candidate {
        pod: Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap()),
        cgroup: format!("/kubepods/{name}"),
        started: Timestamp::UNIX_EPOCH,
        memory: None,
        disk: None,
        processes: None,
        containers: BTreeMap::new(),
        memory_request: None,
    }
}

fn with_memory(name: &str, priority: i32, request: u64, usage: u64) -> Candidate {
    Candidate { memory: Some(usage), ..candidate(name, priority, request, 0) }
}

/// Root, logs and volumes.
fn with_disk(name: &str, priority: i32, request: u64, parts: [u64; 3]) -> Candidate {
    let [root, logs, volumes] = parts.map(|n| DiskUse { bytes: n, inodes: n, ..DiskUse::default() });
    Candidate { disk: Some(PodDisk { root, logs, volumes }), ..candidate(name, priority, 0, request) }
}

fn order(signal: Signal, layout: DiskLayout, candidates: &[Candidate]) -> Vec<&str> {
    let ranking = rank(signal, layout, &EvictionSettings::default(), candidates);
    assert_eq!(ranking.exempt, []);
    ranking.order.iter().map(|index| candidates[*index].pod.name.as_str()).collect()
}

/// rankMemoryPressure: above the request or not, priority, how far above.
#[test]
fn memory_ranks_by_excess_over_request_then_priority() {
    let candidates = [
        with_memory("below high large", 100, 1000, 900),
        with_memory("below low large", 0, 1000, 900),
        with_memory("below low small", 0, 1000, 100),
        with_memory("above high small", 100, 100, 200),
        with_memory("above high large", 100, 100, 900),
        with_memory("above low small", 0, 100, 200),
        with_memory("above low large", 0, 100, 900),
        with_memory("exactly", -5, 900, 900),
        with_memory("best effort", 0, 0, 500),
    ];
    let expected = [
        "above low large",
        "best effort",
        "above low small",
        "above high large",
        "above high small",
        "exactly",
        "below low large",
        "below low small",
        "below high large",
    ];
    for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
        assert_eq!(order(signal, DiskLayout::One, &candidates), expected);
    }
}

/// rankPIDPressure: priority, processes.
#[test]
fn processes_rank_by_priority_then_count() {
    let pod = |name, priority, processes| Candidate {
        processes: Some(processes),
        ..candidate(name, priority, 0, 0)
    };
    let candidates =
        [pod("high few", 9, 1), pod("high many", 9, 90), pod("low few", 0, 0), pod("low many", 0, 50)];
    assert_eq!(
        order(Signal::PidAvailable, DiskLayout::One, &candidates),
        ["low many", "low few", "high many", "high few"]
    );
}

/// rankDiskPressureFunc for space and for inodes, which cannot be requested.
#[test]
fn disk_space_and_inodes_rank_as_in_the_kubelet() {
    let candidates = [
        with_disk("below low", 0, 1000, [200, 300, 100]),
        with_disk("above high", 100, 100, [200, 300, 100]),
        with_disk("above low", 0, 100, [20, 30, 100]),
        with_disk("far above low", 0, 100, [20, 30, 101]),
        with_disk("nothing", -9, 0, [0, 0, 0]),
    ];
    let space = ["far above low", "above low", "above high", "nothing", "below low"];
    assert_eq!(order(Signal::NodeFsAvailable, DiskLayout::One, &candidates), space);
    let inodes = ["below low", "far above low", "above low", "above high", "nothing"];
    assert_eq!(order(Signal::NodeFsInodesFree, DiskLayout::One, &candidates), inodes);
}

/// buildSignalToRankFunc: which parts of a pod count for which signal. 1 is the layers, 10 the logs, 100 the
/// volumes.
#[test]
fn parts_of_a_pod_that_count_for_each_signal_and_layout() {
    let candidate = with_disk("p", 0, 7, [1, 10, 100]);
    let figure = |signal, layout| figures(signal, layout, &candidate).0;
    for (layout, nodefs, containerfs, imagefs, image_inodes) in [
        (DiskLayout::One, 111, 111, 111, 111),
        (DiskLayout::ImagesApart, 110, 1, 1, 1),
        (DiskLayout::ContainersOnNode, 111, 111, 1, 0),
        (DiskLayout::Three, 110, 1, 1, 0),
    ] {
        for (signal, expected) in [
            (Signal::NodeFsAvailable, nodefs),
            (Signal::NodeFsInodesFree, nodefs),
            (Signal::ContainerFsAvailable, containerfs),
            (Signal::ContainerFsInodesFree, containerfs),
            (Signal::ImageFsAvailable, imagefs),
            (Signal::ImageFsInodesFree, image_inodes),
        ] {
            assert_eq!(figure(signal, layout), expected, "{signal:?} {layout:?}");
        }
    }
    assert_eq!(figures(Signal::ImageFsAvailable, DiskLayout::One, &candidate), (111, 7));
    assert_eq!(figures(Signal::ImageFsInodesFree, DiskLayout::One, &candidate), (111, 0));
}

#[test]
fn pod_level_requests_and_overhead_count_as_the_request() {
    let pod = json!({"metadata": {"name": "p", "uid": "p"}, "spec": {
        "overhead": {"memory": "5"},
        "resources": {"requests": {"memory": "100"}, "limits": {"memory": "100"}},
        "containers": [{"name": "c", "image": "i"}]}});
    let mut candidate = with_memory("p", 0, 0, 50);
    candidate.pod = Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap());
    assert_eq!(figures(Signal::MemoryAvailable, DiskLayout::One, &candidate), (50, 105));
    candidate.memory_request = Some(40);
    assert_eq!(figures(Signal::MemoryAvailable, DiskLayout::One, &candidate), (50, 40));
}

#[test]
fn a_pod_without_figures_is_ordered_as_one_that_uses_nothing_and_younger_pods_come_first() {
    let started = |second| Timestamp::from_second(second).unwrap();
    let candidates = [
        candidate("not read", 0, 0, 0),
        candidate("not read, lower priority", -9, 0, 0),
        Candidate { started: started(5), ..with_memory("older", 0, 0, 10) },
        Candidate { started: started(6), ..with_memory("younger", 0, 0, 10) },
        Candidate { started: started(5), ..with_memory("name", 0, 0, 10) },
        with_memory("idle", 0, 0, 0),
    ];
    let expected = ["younger", "name", "older", "not read, lower priority", "idle", "not read"];
    assert_eq!(order(Signal::MemoryAvailable, DiskLayout::One, &candidates), expected);
}

#[test]
fn critical_pods_are_exempt() {
    let candidates = [
        with_memory("critical", SYSTEM_CRITICAL_PRIORITY, 0, 900),
        with_memory("almost", SYSTEM_CRITICAL_PRIORITY - 1, 0, 1),
    ];
    let settings = EvictionSettings::default();
    let (signal, layout) = (Signal::MemoryAvailable, DiskLayout::One);
    let ranking = rank(signal, layout, &settings, &candidates);
    assert_eq!(ranking, Ranking { order: vec![1], exempt: vec![(0, "critical")] });
    let shown = ranking_table(signal, layout, &ranking, &candidates, Some(1));
    let rows: Vec<_> =
        shown.iter().map(|c| (c.name.as_str(), c.usage, c.chosen, c.spared.as_str())).collect();
    assert_eq!(rows, [("almost", 1, true, ""), ("critical", 900, false, "critical")]);
    assert_eq!((shown[0].qos.as_str(), shown[0].uid.as_str()), ("BestEffort", "almost"));
    let all = EvictionSettings { manifests_critical: true, ..settings };
    assert_eq!(rank(signal, layout, &all, &candidates).order, Vec::<usize>::new());
}

/// buildSignalToNodeReclaimFuncs.
#[test]
fn what_is_reclaimed_before_a_pod_is_evicted() {
    use Reclaim::{DeadContainers, UnusedImages};
    let both: &[Reclaim] = &[DeadContainers, UnusedImages];
    for (layout, nodefs, containerfs, imagefs) in [
        (DiskLayout::One, both, both, both),
        (DiskLayout::ImagesApart, &[], both, both),
        (DiskLayout::ContainersOnNode, &[DeadContainers], &[DeadContainers], &[UnusedImages]),
        (DiskLayout::Three, &[], &[DeadContainers], &[UnusedImages]),
    ] {
        for (signals, expected) in [
            ([Signal::NodeFsAvailable, Signal::NodeFsInodesFree], nodefs),
            ([Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree], containerfs),
            ([Signal::ImageFsAvailable, Signal::ImageFsInodesFree], imagefs),
            ([Signal::MemoryAvailable, Signal::PidAvailable], &[]),
        ] {
            for signal in signals {
                assert_eq!(reclaims(signal, layout), expected, "{signal:?} {layout:?}");
            }
        }
    }
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let priority = prop_oneof![4 => -2..3i32, 1 => Just(SYSTEM_CRITICAL_PRIORITY), 1 => any::<i32>()];
    let figure = || proptest::option::weighted(0.9, 0..6u64);
    (priority, 0..4u64, 0..4u64, figure(), figure(), figure(), 0..3i64).prop_map(
        |(priority, memory, storage, used, disk, processes, started)| Candidate {
            memory: used,
            disk: disk.map(|n| {
                let parts = DiskUse { bytes: n, inodes: n, ..DiskUse::default() };
                PodDisk { root: parts, logs: DiskUse::default(), volumes: parts }
            }),
            processes,
            started: Timestamp::from_second(started).unwrap(),
            ..candidate("p", priority, memory, storage)
        },
    )
}

/// Candidates with a uid each.
fn any_candidates() -> impl Strategy<Value = Vec<Candidate>> {
    proptest::collection::vec(any_candidate(), 0..12).prop_map(|mut candidates| {
        for (i, candidate) in candidates.iter_mut().enumerate() {
            Arc::make_mut(&mut candidate.pod).uid = format!("{i:02}");
        }
        candidates
    })
}

proptest! {
    #[test]
    fn every_ranking_is_total_and_in_the_kubelets_order(
        (candidates, shuffled) in any_candidates().prop_flat_map(|c| (Just(c.clone()), Just(c).prop_shuffle())),
        signal in proptest::sample::select(Signal::iter().collect::<Vec<_>>()),
        layout in proptest::sample::select(&LAYOUTS[..]),
    ) {
        let settings = EvictionSettings::default();
        let ranking = rank(signal, layout, &settings, &candidates);
        // No critical pod is ordered; every candidate is listed once.
        prop_assert!(ranking.order.iter().all(|index| !candidates[*index].pod.is_critical()));
        prop_assert!(ranking.exempt.iter().all(|(index, _)| candidates[*index].pod.is_critical()));
        let mut all: Vec<_> = ranking.order.iter().copied().chain(ranking.exempt.iter().map(|(i, _)| *i)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..candidates.len()).collect::<Vec<_>>());
        // The order of the candidates does not matter.
        let again = rank(signal, layout, &settings, &shuffled);
        let uids = |candidates: &[Candidate], go: &[usize]| {
            go.iter().map(|index| candidates[*index].pod.uid.clone()).collect::<Vec<_>>()
        };
        prop_assert_eq!(uids(&candidates, &ranking.order), uids(&shuffled, &again.order));
        // Each pair of candidates is in the kubelet's order.
        let ordered: Vec<_> = ranking.order.iter().map(|i| &candidates[*i]).collect();
        for pair in ordered.windows(2) {
            let of = |c: &Candidate| {
                let (usage, request) = figures(signal, layout, c);
                let above = usage > request || signal == Signal::PidAvailable;
                (!above, c.pod.priority, -(i128::from(usage) - i128::from(request)))
            };
            prop_assert!(of(pair[0]) <= of(pair[1]), "{:?} before {:?}", of(pair[0]), of(pair[1]));
        }
    }
}

#[test]
fn those_that_others_keep_are_exempt_with_the_reason() {
    let ranking = Ranking { order: vec![2, 0, 1], exempt: vec![(3, "critical")] };
    let kept = ranking.without(|at| (at != 0).then_some("opted out"));
    assert_eq!(kept.order, [0]);
    assert_eq!(kept.exempt, [(3, "critical"), (2, "opted out"), (1, "opted out")]);
}

/// Figures as they are, without those who use nothing: what [`first_by_memory`] must agree with.
fn first_of_all(candidates: &[Candidate], spared: &str) -> Option<usize> {
    let spares = |at: usize| (candidates[at].pod.uid == spared).then_some("spared");
    let ranking = rank(Signal::MemoryAvailable, DiskLayout::One, &EvictionSettings::default(), candidates);
    ranking.without(spares).order.into_iter().find(|at| candidates[*at].memory.unwrap_or(0) > 0)
}

/// The same pods before their inactive file pages are subtracted, so many of each.
fn with_usage(candidates: &[Candidate], inactive_file: &[u64]) -> Vec<Candidate> {
    let add = |(candidate, inactive): (&Candidate, &u64)| Candidate {
        memory: candidate.memory.map(|bytes| bytes + inactive),
        ..candidate.clone()
    };
    candidates.iter().zip(inactive_file).map(add).collect()
}

fn first_by_readings(candidates: &[Candidate], inactive_file: &[u64], spared: &str) -> (First, Vec<usize>) {
    let mut read = Vec::new();
    let usage = with_usage(candidates, inactive_file);
    let spares = |at: usize| candidates[at].pod.uid == spared;
    let first = first_by_memory(&EvictionSettings::default(), &usage, spares, |at| {
        read.push(at);
        candidates[at].memory.unwrap_or(0)
    });
    (first, read)
}

#[test]
fn only_pods_that_may_be_the_first_are_read_exactly() {
    let pods = [
        with_memory("small", 0, 100, 150),
        with_memory("eater", 0, 100, 900),
        with_memory("within", 0, 1000, 500),
        with_memory("middle", 0, 100, 300),
    ];
    for (what, inactive_file, expected) in [
        ("the largest is far ahead", [0, 0, 0, 0], vec![1]),
        ("most of another's usage is its files", [0, 0, 0, 2000], vec![3, 1]),
        ("one is above its request only with its files", [0, 0, 5000, 0], vec![2, 1]),
        ("everybody has many files", [5000, 900, 5000, 5000], vec![3, 0, 2, 1]),
    ] {
        let (first, read) = first_by_readings(&pods, &inactive_file, "");
        assert_eq!(first.at, Some(1), "{what}");
        assert_eq!(read, expected, "{what}");
        assert_eq!(first.exact[1], Some(900));
    }
    let uids = pods.iter().map(|one| one.pod.uid.as_str()).collect::<Vec<_>>();
    let (first, read) = first_by_readings(&pods, &[0; 4], uids[1]);
    assert_eq!((first.at, read), (Some(3), vec![3]), "what is spared is not read");
    let nothing = [with_memory("files", 0, 0, 0)];
    let (first, read) = first_by_readings(&nothing, &[70], "");
    assert_eq!((first.at, read), (None, vec![0]), "a pod that has nothing but files");
}

proptest! {
    #[test]
    fn the_first_by_few_readings_is_the_first_of_all(
        candidates in any_candidates(),
        inactive_file in proptest::collection::vec(0u64..40, 12),
        spared in 0usize..14,
    ) {
        let spared = format!("{spared:02}");
        let (first, read) = first_by_readings(&candidates, &inactive_file, &spared);
        prop_assert_eq!(first.at, first_of_all(&candidates, &spared));
        for (at, exact) in first.exact.iter().enumerate() {
            prop_assert_eq!(exact.is_some(), read.contains(&at));
            prop_assert!(exact.is_none_or(|bytes| Some(bytes) == candidates[at].memory));
        }
        let mut once = read.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), read.len(), "none is read twice");
    }
}
