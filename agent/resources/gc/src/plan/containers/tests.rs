//! Tables of which dead containers and sandboxes are removed (with cases of the kubelet's
//! kuberuntime_gc_test.go), and properties that always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::GcSettings;
use proptest::prelude::*;

use super::{ContainerPlan, DeadContainer, SandboxFact, containers};

const NOW: i64 = 1000;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

/// Parses `pod/name#attempt@created`, followed by `!` if the pod is gone.
fn dead(text: &str) -> DeadContainer {
    let (id, pod_gone) = match text.strip_suffix('!') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (uid, rest) = id.split_once('/').expect("a name");
    let (name, rest) = rest.split_once('#').expect("an attempt");
    let (attempt, created) = rest.split_once('@').expect("a time");
    DeadContainer {
        id: id.to_owned(),
        sandbox: format!("sandbox of {uid}"),
        uid: uid.to_owned(),
        name: name.to_owned(),
        attempt: attempt.parse().expect("a number"),
        created: at(created.parse().expect("a number")),
        pod_gone,
    }
}

fn settings(per_container: Option<u32>, all: Option<u32>, min_age: u64) -> GcSettings {
    GcSettings {
        max_per_pod_container: per_container,
        max_containers: all,
        min_container_age: Duration::from_secs(min_age),
        ..GcSettings::default()
    }
}

fn go(given: &[&str], settings: &GcSettings) -> Vec<String> {
    let dead: Vec<_> = given.iter().map(|text| dead(text)).collect();
    let plan = containers(&dead, &[], settings, at(NOW), false);
    assert_eq!(plan.sandboxes, Vec::<String>::new());
    plan.containers
}

#[test]
fn the_newest_of_each_container_are_kept() {
    let three = ["p/a#0@1", "p/a#1@2", "p/a#2@3"];
    for (given, most, expected) in [
        (&three[..], Some(1), vec!["p/a#0@1", "p/a#1@2"]),
        (&three, Some(2), vec!["p/a#0@1"]),
        (&three, Some(3), vec![]),
        (&three, Some(u32::MAX), vec![]),
        (&three, Some(0), vec!["p/a#0@1", "p/a#1@2", "p/a#2@3"]),
        (&three, None, vec![]),
        // In any order of the list.
        (&["p/a#2@3", "p/a#0@1", "p/a#1@2"], Some(1), vec!["p/a#0@1", "p/a#1@2"]),
        // The limit applies to each name and each pod.
        (&["p/a#0@1", "p/b#0@2", "q/a#0@3"], Some(1), vec![]),
        (&["p/a#0@1", "p/a#1@4", "p/b#0@2", "q/a#0@3", "q/a#1@5"], Some(1), vec!["p/a#0@1", "q/a#0@3"]),
        // A clock that was set back between two attempts.
        (&["p/a#0@500", "p/a#1@2"], Some(1), vec!["p/a#0@500"]),
        (&[], Some(1), vec![]),
    ] {
        assert_eq!(go(given, &settings(most, None, 0)), expected, "{given:?} {most:?}");
    }
}

#[test]
fn a_limited_number_of_all_is_kept() {
    let five = ["p/a#0@1", "p/a#1@2", "p/a#2@9", "q/b#0@3", "q/b#1@4"];
    for (given, per_container, most, expected) in [
        (&five[..], None, 5, vec![]),
        // Two of each fit.
        (&five, None, 4, vec!["p/a#0@1"]),
        // Three: an even division gives one of each, and one slot stays unused, as in the kubelet.
        (&five, None, 3, vec!["p/a#0@1", "p/a#1@2", "q/b#0@3"]),
        (&five, None, 2, vec!["p/a#0@1", "p/a#1@2", "q/b#0@3"]),
        // One of each is too many: the oldest is removed.
        (&five, None, 1, vec!["p/a#0@1", "p/a#1@2", "q/b#0@3", "q/b#1@4"]),
        (&five, None, 0, vec!["p/a#0@1", "p/a#1@2", "q/b#0@3", "q/b#1@4", "p/a#2@9"]),
        // The limit for each container is applied first, and may be enough.
        (&five, Some(2), 4, vec!["p/a#0@1"]),
        (&five, Some(1), 4, vec!["p/a#0@1", "p/a#1@2", "q/b#0@3"]),
        (&["p/a#0@5", "q/a#0@4", "r/a#0@3"], Some(1), 2, vec!["r/a#0@3"]),
        (&[], None, 0, vec![]),
    ] {
        let case = (given, per_container, most);
        assert_eq!(go(given, &settings(per_container, Some(most), 0)), expected, "{case:?}");
    }
}

#[test]
fn young_containers_are_kept() {
    for (given, min_age, expected) in [
        (&["p/a#0@1", "p/a#1@2"][..], 998, vec!["p/a#0@1"]),
        // A young one does not count: the newest of the old ones is kept.
        (&["p/a#0@1", "p/a#1@2", "p/a#2@990"], 100, vec!["p/a#0@1"]),
        (&["p/a#0@1", "p/a#1@990"], 100, vec![]),
        (&["p/a#0@900", "p/a#1@900"], 100, vec!["p/a#0@900"]),
        (&["p/a#0@901", "p/a#1@901"], 100, vec![]),
        // Created later than now: counts as young if there is a minimum age.
        (&["p/a#0@2000", "p/a#1@2001"], 1, vec![]),
        (&["p/a#0@2000", "p/a#1@2001"], 0, vec!["p/a#0@2000"]),
    ] {
        assert_eq!(go(given, &settings(Some(1), None, min_age)), expected, "{given:?} {min_age}");
    }
    // Too many in total: only the old ones are counted and removed.
    assert_eq!(go(&["p/a#0@1", "q/a#0@990"], &settings(None, Some(0), 100)), ["p/a#0@1"]);
}

#[test]
fn all_containers_of_gone_pods_are_removed_at_once() {
    for (given, expected) in [
        (&["p/a#0@1!", "p/a#1@999!", "q/a#0@2"][..], vec!["p/a#0@1", "p/a#1@999"]),
        // If one container says that the pod is gone, it holds for all of them.
        (&["p/a#0@1!", "p/b#0@2"], vec!["p/a#0@1", "p/b#0@2"]),
    ] {
        assert_eq!(go(given, &settings(None, None, 500)), expected, "{given:?}");
    }
    // They do not count towards the limit of the others.
    let given = ["p/a#0@1!", "q/a#0@2", "r/a#0@3"];
    assert_eq!(go(&given, &settings(Some(1), Some(2), 0)), ["p/a#0@1"]);
}

/// Parses `pod#attempt@created`, with further facts.
fn sandbox(text: &str, ready: bool, holds: &[&str]) -> SandboxFact {
    let (uid, rest) = text.split_once('#').expect("an attempt");
    let (attempt, created) = rest.split_once('@').expect("a time");
    SandboxFact {
        id: text.to_owned(),
        uid: uid.to_owned(),
        attempt: attempt.parse().expect("a number"),
        created: at(created.parse().expect("a number")),
        ready,
        containers: holds.iter().map(|id| (*id).to_owned()).collect(),
        pod_gone: false,
        pod_ended: false,
    }
}

fn gone(sandbox: SandboxFact) -> SandboxFact {
    SandboxFact { pod_gone: true, ..sandbox }
}

#[test]
fn unneeded_sandboxes_are_removed() {
    for (what, given, expected) in [
        ("the only one of a pod stays", vec![sandbox("p#0@1", false, &[])], vec![]),
        (
            "the newest stays",
            vec![sandbox("p#1@2", false, &[]), sandbox("p#0@1", false, &[]), sandbox("q#0@3", false, &[])],
            vec!["p#0@1"],
        ),
        (
            "also if it is the one that is ready",
            vec![sandbox("p#1@2", true, &[]), sandbox("p#0@1", false, &[])],
            vec!["p#0@1"],
        ),
        (
            "and if a clock was set back",
            vec![sandbox("p#1@2", false, &[]), sandbox("p#0@500", false, &[])],
            vec!["p#0@500"],
        ),
        ("a ready one stays", vec![sandbox("p#0@1", true, &[]), sandbox("p#1@2", true, &[])], vec![]),
        (
            "one with a container stays",
            vec![sandbox("p#0@1", false, &["c"]), sandbox("p#1@2", true, &[])],
            vec![],
        ),
        (
            "of a pod that is gone even the newest is removed",
            vec![gone(sandbox("p#0@1", false, &[]))],
            vec!["p#0@1"],
        ),
        (
            "all that are empty and not ready, oldest first",
            vec![
                gone(sandbox("p#3@4", true, &[])),
                gone(sandbox("p#2@3", false, &["c"])),
                gone(sandbox("p#1@2", false, &[])),
                gone(sandbox("p#0@1", false, &[])),
            ],
            vec!["p#0@1", "p#1@2"],
        ),
    ] {
        let plan = containers(&[], &given, &GcSettings::default(), at(NOW), false);
        assert_eq!(plan.sandboxes, expected, "{what}");
        assert_eq!(plan.containers, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_sandbox_is_removed_with_its_last_containers() {
    let dead = ["p/a#0@1", "p/a#1@2", "q/a#0@3!"].map(dead);
    let sandboxes = [
        sandbox("p#0@1", false, &["p/a#0@1"]),
        sandbox("p#1@2", false, &["p/a#1@2"]),
        sandbox("p#2@5", true, &["p/a#2@5"]),
        gone(sandbox("q#0@3", false, &["q/a#0@3"])),
        // Of a pod that is gone, with a container that still runs.
        gone(sandbox("q#1@4", false, &["q/a#0@3", "running"])),
    ];
    let plan = containers(&dead, &sandboxes, &GcSettings::default(), at(NOW), false);
    assert_eq!(plan.containers, ["p/a#0@1", "q/a#0@3"]);
    assert_eq!(plan.sandboxes, ["p#0@1", "q#0@3"]);
}

#[test]
fn all_unused_includes_everything_of_ended_pods() {
    let ended = |sandbox: SandboxFact| SandboxFact { pod_ended: true, ..sandbox };
    let dead = ["p/a#0@1", "q/a#0@2", "q/a#1@3"].map(dead);
    let sandboxes = [
        ended(sandbox("p#0@1", false, &["p/a#0@1"])),
        sandbox("q#0@2", true, &["q/a#0@2", "q/a#1@3", "q/a#2@4"]),
    ];
    let keep_all = settings(None, None, 0);
    for (all_unused, settings, go_containers, go_sandboxes) in [
        (false, &keep_all, vec![], vec![]),
        (true, &keep_all, vec!["p/a#0@1"], vec!["p#0@1"]),
        (false, &settings(Some(1), None, 0), vec!["q/a#0@2"], vec![]),
        (true, &settings(Some(1), None, 0), vec!["p/a#0@1", "q/a#0@2"], vec!["p#0@1"]),
        // Regardless of their age.
        (true, &settings(Some(1), None, 5000), vec!["p/a#0@1"], vec!["p#0@1"]),
    ] {
        let plan = containers(&dead, &sandboxes, settings, at(NOW), all_unused);
        let expected = ContainerPlan {
            containers: go_containers.into_iter().map(str::to_owned).collect(),
            sandboxes: go_sandboxes.into_iter().map(str::to_owned).collect(),
        };
        assert_eq!(plan, expected, "{all_unused} {settings:?}");
    }
}

/// Up to three pods with up to two names each.
fn any_dead() -> impl Strategy<Value = Vec<DeadContainer>> {
    let one = (0..3u8, 0..2u8, 0..5u32, 0..NOW);
    let gone = prop::collection::vec(prop::bool::weighted(0.2), 3);
    (prop::collection::vec(one, 0..30), gone).prop_map(|(list, gone)| {
        let of = |(i, (pod, name, attempt, created)): (usize, (u8, u8, u32, i64))| DeadContainer {
            id: format!("{i}"),
            sandbox: format!("s{pod}"),
            uid: format!("u{pod}"),
            name: format!("c{name}"),
            attempt,
            created: at(created),
            pod_gone: gone[usize::from(pod)],
        };
        list.into_iter().enumerate().map(of).collect()
    })
}

proptest! {
    /// The limits are kept, no more is removed than they require, what is kept of a container is newer than
    /// what is removed, and young containers are only removed with their pod.
    #[test]
    fn limits_are_kept_and_nothing_more_is_removed(
        dead in any_dead(),
        per_container in prop::option::of(0..4u32),
        most in prop::option::of(0..8u32),
        min_age in prop_oneof![Just(0u64), 0..NOW as u64],
    ) {
        let settings = settings(per_container, most, min_age);
        let plan = containers(&dead, &[], &settings, at(NOW), false);
        let go: BTreeSet<&str> = plan.containers.iter().map(String::as_str).collect();
        prop_assert_eq!(go.len(), plan.containers.len(), "each once");
        let old = |c: &DeadContainer| (at(NOW).duration_since(c.created)).as_secs() >= min_age as i64;

        let mut left: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for one in &dead {
            let is_removed = go.contains(&*one.id);
            prop_assert!(is_removed || !one.pod_gone, "{:?}", one);
            prop_assert!(!is_removed || one.pod_gone || old(one), "{:?}", one);
            if !is_removed && old(one) {
                *left.entry((&one.uid, &one.name)).or_default() += 1;
            }
            for other in dead.iter().filter(|o| (&o.uid, &o.name) == (&one.uid, &one.name) && old(o)) {
                // Of one container the oldest is removed first, except for the limit on all, which only
                // compares times.
                let newer = other.attempt > one.attempt && other.created > one.created;
                prop_assert!(is_removed || !newer || !go.contains(&*other.id) || !old(one), "{:?} {:?}", one, other);
            }
        }
        let total: u32 = left.values().sum();
        for count in left.values() {
            prop_assert!(per_container.is_none_or(|most| *count <= most));
        }
        prop_assert!(most.is_none_or(|most| total <= most));
        if per_container.is_none() && most.is_none() {
            prop_assert_eq!(plan.containers.len(), dead.iter().filter(|c| c.pod_gone).count());
        }
        // After the plan is carried out, nothing is left to do.
        let rest: Vec<_> = dead.iter().filter(|c| !go.contains(&*c.id)).cloned().collect();
        prop_assert_eq!(containers(&rest, &[], &settings, at(NOW), false), ContainerPlan::default());
    }
}
