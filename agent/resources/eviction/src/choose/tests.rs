//! Tables of what is certain and what is not, and that only the pod that is first by true use is evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::rank::{rank, ranking_table};
use crate::{DiskUse, PodDisk};
use nodewarden_manifest::{Pod, SYSTEM_CRITICAL_PRIORITY};

const DEVICE: u64 = 7;
const SIGNAL: Signal = Signal::NodeFsAvailable;

fn used(used: u64) -> Option<UsedOf> {
    Some(UsedOf { device: DEVICE, used })
}

fn part(bytes: u64, complete: bool) -> DiskUse {
    DiskUse { bytes, inodes: 2 * bytes, complete, device: Some(DEVICE), ..DiskUse::default() }
}

/// A pod with its priority, its request in bytes (0 is none) and what is known of its volumes.
fn candidate(name: &str, priority: i32, request: u64, volumes: Option<DiskUse>) -> Candidate {
    let requests = if request > 0 { json!({"ephemeral-storage": request.to_string()}) } else { json!({}) };
    let pod = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"priority": priority, "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
    });
    Candidate {
        pod: Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap()),
        cgroup: String::new(),
        started: Timestamp::UNIX_EPOCH,
        memory: None,
        disk: volumes.map(|volumes| PodDisk { volumes, ..PodDisk::default() }),
        processes: None,
        containers: BTreeMap::new(),
        memory_request: None,
    }
}

fn pod(name: &str, bytes: u64, complete: bool) -> Candidate {
    candidate(name, 0, 0, Some(part(bytes, complete)))
}

fn chosen(candidates: &[Candidate], used_of: Option<UsedOf>) -> Choice {
    choose(SIGNAL, DiskLayout::One, &EvictionSettings::default(), candidates, used_of)
}

#[test]
fn only_a_pod_that_is_certainly_first_is_evicted() {
    use Choice::{Evict, Measure, NoPod};
    let unread = |name| candidate(name, 0, 0, None);
    let critical = |complete| candidate("critical", SYSTEM_CRITICAL_PRIORITY, 0, Some(part(9, complete)));
    let high = |bytes, complete| candidate("high", 9, 0, Some(part(bytes, complete)));
    let requests = |bytes, complete| candidate("requests", 0, 50, Some(part(bytes, complete)));
    for (what, candidates, used_of, expected) in [
        ("all complete", vec![pod("a", 5, true), pod("b", 9, true)], used(100), Evict(1)),
        ("all complete, file system unknown", vec![pod("a", 5, true), pod("b", 9, true)], None, Evict(1)),
        ("the other may be larger", vec![pod("a", 5, false), pod("b", 9, true)], used(100), Measure(vec![0])),
        ("the other cannot be larger", vec![pod("a", 5, false), pod("b", 50, true)], used(99), Evict(1)),
        (
            "the other can be as large",
            vec![pod("a", 5, false), pod("b", 50, true)],
            used(100),
            Measure(vec![0]),
        ),
        ("its least is enough", vec![pod("a", 60, false), pod("b", 20, false)], used(110), Evict(0)),
        (
            "its least is not enough",
            vec![pod("a", 60, false), pod("b", 20, false)],
            used(130),
            Measure(vec![0, 1]),
        ),
        (
            "of one with the most, none is complete",
            vec![pod("a", 10, true), pod("b", 20, false)],
            used(1000),
            Evict(1),
        ),
        ("no pod has been counted", vec![pod("a", 0, false), unread("b")], used(100), Measure(vec![1, 0])),
        ("a pod without figures", vec![pod("a", 9, true), unread("b")], used(9), Measure(vec![1])),
        ("alone and not complete", vec![pod("a", 1, false)], used(100), Evict(0)),
        ("no pod uses anything", vec![pod("a", 0, true)], used(100), NoPod),
        ("there is no pod", vec![], used(100), NoPod),
        ("a critical pod does not matter", vec![pod("a", 5, true), critical(false)], used(100), Evict(0)),
        ("only a critical pod", vec![critical(true)], used(100), NoPod),
        ("of a higher priority", vec![pod("a", 5, true), high(90, false)], used(900), Evict(0)),
        ("of a lower priority", vec![high(90, true), pod("a", 0, false)], used(900), Measure(vec![1])),
        (
            "of a lower priority, which uses nothing",
            vec![high(90, true), pod("a", 0, false)],
            used(90),
            Evict(0),
        ),
        ("within its request at most", vec![pod("a", 5, true), requests(10, false)], used(55), Evict(0)),
        (
            "perhaps above its request",
            vec![pod("a", 0, true), pod("b", 1, true), requests(10, false)],
            used(63),
            Measure(vec![2]),
        ),
        (
            "figures of shared blocks",
            vec![pod("a", 50, false), pod("b", 70, true)],
            used(100),
            Measure(vec![0]),
        ),
    ] {
        assert_eq!(chosen(&candidates, used_of), expected, "{what}");
    }
}

/// A pod could otherwise keep all others on a full disk by one directory that cannot be read.
#[test]
fn a_pod_whose_rest_cannot_be_counted_is_evicted_only_with_the_largest_figure() {
    use Choice::{Evict, Measure, NoPod};
    let partly = |name, bytes| {
        let part = DiskUse { uncountable: true, ..part(bytes, false) };
        candidate(name, 0, 0, Some(part))
    };
    for (what, candidates, expected) in [
        ("its figure is the largest", vec![partly("a", 9), pod("b", 5, true)], Evict(0)),
        ("another has more", vec![partly("a", 5), pod("b", 9, true)], Evict(1)),
        ("two of them", vec![partly("a", 5), partly("b", 9)], Evict(1)),
        ("alone", vec![partly("a", 1)], Evict(0)),
        ("nothing of it is known", vec![partly("a", 0)], NoPod),
        ("another may grow beyond it", vec![partly("a", 60), pod("b", 5, false)], Measure(vec![1])),
    ] {
        assert_eq!(chosen(&candidates, used(1000)), expected, "{what}");
        let ranking = rank(SIGNAL, DiskLayout::One, &EvictionSettings::default(), &candidates);
        let shown = ranking_table(SIGNAL, DiskLayout::One, &ranking, &candidates, None);
        assert!(shown.iter().any(|seen| seen.uid == "a" && seen.incomplete), "{what}: {shown:?}");
    }
}

#[test]
fn parts_on_other_file_systems_have_no_bound() {
    let elsewhere = |name, device| {
        let part = DiskUse { device, ..part(5, false) };
        candidate(name, 0, 0, Some(part))
    };
    for device in [Some(DEVICE + 1), None] {
        let candidates = [pod("a", 50, true), elsewhere("b", device)];
        assert_eq!(chosen(&candidates, used(50)), Choice::Measure(vec![1]), "{device:?}");
    }
    // What is elsewhere is not taken from what is in use here.
    let foreign = DiskUse { device: Some(DEVICE + 1), ..part(40, true) };
    let candidates = [candidate("a", 0, 0, Some(foreign)), pod("b", 5, false)];
    assert_eq!(chosen(&candidates, used(40)), Choice::Evict(0), "b has at most 40");
    assert_eq!(chosen(&candidates, used(41)), Choice::Measure(vec![1]), "b may have 41");
}

#[test]
fn inodes_have_a_bound_of_their_own() {
    let candidates = [pod("a", 50, true), pod("b", 5, false)];
    let of = |used_of| {
        choose(Signal::NodeFsInodesFree, DiskLayout::One, &EvictionSettings::default(), &candidates, used_of)
    };
    assert_eq!(of(used(199)), Choice::Evict(0));
    assert_eq!(of(used(201)), Choice::Measure(vec![1]));
}

/// A pod: priority, request, whether critical, what it truly uses by part, and how much of each is known.
fn any_pod() -> impl Strategy<Value = (i32, u64, [(u64, Option<u64>); 3], i64)> {
    let part = (0..40u64, proptest::option::of(0..40u64));
    let priority = prop_oneof![6 => -1..2i32, 1 => Just(SYSTEM_CRITICAL_PRIORITY)];
    (priority, prop_oneof![Just(0), 1..40u64], prop::array::uniform3(part), 0..2i64)
}

/// What is known of a part that truly uses `bytes`: all, or at most `known` of it.
fn known((bytes, known): (u64, Option<u64>)) -> DiskUse {
    part(known.map_or(bytes, |known| known.min(bytes)), known.is_none())
}

proptest! {
    /// For all true figures: the evicted pod is the first by true use, whatever is not known; with complete
    /// figures it is the first of the ranking.
    #[test]
    fn the_evicted_pod_is_the_first_by_true_use(pods in prop::collection::vec(any_pod(), 0..7), others in 0..60u64) {
        let make = |of: &dyn Fn((u64, Option<u64>)) -> DiskUse| -> Vec<Candidate> {
            pods.iter().enumerate().map(|(at, (priority, request, parts, started))| {
                let [root, logs, volumes] = parts.map(of);
                Candidate {
                    disk: Some(PodDisk { root, logs, volumes }),
                    started: Timestamp::from_second(*started).unwrap(),
                    ..candidate(&format!("{at:02}"), *priority, *request, None)
                }
            }).collect()
        };
        let (seen, truth) = (make(&known), make(&|(bytes, _)| part(bytes, true)));
        let all: u64 = pods.iter().flat_map(|(_, _, parts, _)| parts).map(|(bytes, _)| bytes).sum();
        let settings = EvictionSettings::default();
        let order = rank(SIGNAL, DiskLayout::One, &settings, &truth).order;
        let uses = |at: &&usize| crate::rank::figures(SIGNAL, DiskLayout::One, &truth[**at]).0 > 0;
        let first = order.iter().find(uses).copied();
        let expected = first.map_or(Choice::NoPod, Choice::Evict);
        prop_assert_eq!(chosen(&truth, used(all + others)), expected.clone());
        for used_of in [used(all + others), used(all), None] {
            match chosen(&seen, used_of) {
                Choice::Measure(open) => {
                    // Counting one of them further can make a difference.
                    prop_assert!(!open.is_empty());
                    for at in open {
                        let parts = pods[at].2;
                        prop_assert!(parts.iter().any(|(_, known)| known.is_some()), "{} is complete", at);
                    }
                }
                other => prop_assert_eq!(other, expected.clone()),
            }
        }
    }
}
