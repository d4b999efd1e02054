//! The keeper on this machine's kernel.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::fixture::{Fixture, keep, pod};
use crate::keep::{Kept, Place};
use crate::keeper::Keeper;
use nodewarden_machine::cgroup::control::{CpuShare, Limits};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;
use nodewarden_model::{ContainerNames, Identity};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the places are so.
fn until(f: &Fixture, keeper: &Keeper, what: &str, so: impl Fn(&Places) -> bool) {
    let mut places = keeper.places();
    let reached = f.runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async { places.wait_for(|p| so(p)).await.is_ok() }).await
    });
    assert_eq!(reached.ok(), Some(true), "never {what}: {:?}", keeper.places().borrow());
}

fn uids(places: &Places) -> BTreeSet<&str> {
    places.keys().map(String::as_str).collect()
}

fn shares(f: &Fixture, path: &str) -> Option<CpuShare> {
    f.manager.read(path).unwrap().cpu
}

fn settled(f: &Fixture, shares: u64) -> Option<CpuShare> {
    f.manager.settled(&Limits { cpu: Some(CpuShare::Shares(shares)), ..Limits::default() }).cpu
}

#[test]
fn a_place_is_told_as_long_as_the_cgroup_stands() {
    let Some(f) = Fixture::make("places") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "200m"));
    let keeper = f.start(keep([&a]));
    // Before anybody could ask.
    let place = Place { path: f.path(&a), cgroup_parent: f.path(&a), problem: None, version: 0 };
    assert_eq!(keeper.places().borrow().get("a"), Some(&place));
    keeper.sink().send(keep([&a, &b]));
    until(&f, &keeper, "b", |p| uids(p) == BTreeSet::from(["a", "b"]));
    assert!(f.manager.exists(&f.path(&b)));
    assert_eq!(shares(&f, &f.path(&b)), settled(&f, 204));
    assert_eq!(shares(&f, &f.level(QosClass::Burstable)), settled(&f, 307));
    keeper.sink().send(keep([&b]));
    until(&f, &keeper, "without a", |p| uids(p) == BTreeSet::from(["b"]));
    assert!(!f.manager.exists(&f.path(&a)));
    assert_eq!(shares(&f, &f.level(QosClass::Burstable)), settled(&f, 204));
}

/// What small turns leave is what a whole one would have made.
#[test]
fn after_many_changes_a_whole_turn_finds_nothing_to_do() {
    let Some(f) = Fixture::make("parts") else { return };
    let keeper = f.start(keep(&[]));
    let mut state = 7u64;
    let mut last = Vec::new();
    for round in 0..40 {
        let mut pods = Vec::new();
        for uid in ["a", "b", "c", "d", "e", "f"] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 62 != 0 {
                pods.push(pod(uid, &format!("{}m", 10 + (state >> 40) % 7 * 100)));
            }
        }
        if round == 39 {
            pods.push(pod("last", "50m"));
        }
        keeper.sink().send(keep(&pods));
        last = pods;
        // Some words come together, some one by one.
        std::thread::sleep(Duration::from_millis(round % 4));
    }
    let wanted: BTreeSet<&str> = last.iter().map(|p| p.uid.as_str()).collect();
    until(&f, &keeper, "the last pods", |p| uids(p) == wanted && p.values().all(|p| p.problem.is_none()));
    let status = keeper.status();
    let deadline = Instant::now() + PATIENCE;
    while !status.lock().removing.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(status.lock().problems, [""; 0]);
    drop(keeper);
    let found: Vec<_> = last.iter().map(|p| f.manager.read(&f.path(p)).unwrap()).collect();
    let level = f.manager.read(&f.level(QosClass::Burstable)).unwrap();
    let again = f.start(keep(&last));
    assert_eq!(again.status().lock().corrections, 0);
    assert_eq!(found, last.iter().map(|p| f.manager.read(&f.path(p)).unwrap()).collect::<Vec<_>>());
    assert_eq!(level, f.manager.read(&f.level(QosClass::Burstable)).unwrap());
}

#[test]
fn while_its_volumes_are_there_a_pods_cgroup_stays_with_the_least_cpu() {
    let Some(f) = Fixture::make("volumes") else { return };
    let a = pod("a", "100m");
    let keeper = f.start(keep([&a]));
    f.volumes.lock().insert("a".into());
    keeper.sink().send(keep(&[]));
    until(&f, &keeper, "a problem", |p| p.get("a").is_some_and(|p| p.problem.is_some()));
    let deadline = Instant::now() + PATIENCE;
    while shares(&f, &f.path(&a)) != settled(&f, 2) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(shares(&f, &f.path(&a)), settled(&f, 2));
    // It is wanted again: no correction, for the cut was ours.
    keeper.sink().send(keep([&a]));
    until(&f, &keeper, "no problem", |p| p.get("a").is_some_and(|p| p.problem.is_none()));
    assert_eq!(shares(&f, &f.path(&a)), settled(&f, 102));
    assert_eq!(keeper.status().lock().corrections, 0);
    keeper.sink().send(keep(&[]));
    until(&f, &keeper, "a problem again", |p| p.get("a").is_some_and(|p| p.problem.is_some()));
    f.volumes.lock().clear();
    keeper.sink().look();
    until(&f, &keeper, "gone", Places::is_empty);
    assert!(!f.manager.exists(&f.path(&a)));
}

/// Also while many others are made in the same turn, and places are told in between.
#[test]
fn a_place_has_the_version_that_its_limits_are_of() {
    let Some(f) = Fixture::make("version") else { return };
    let keeper = f.start(keep([&pod("a", "100m")]));
    let a = pod("a", "200m");
    let mut word = keep([&a]);
    word.pods[0].version = 1;
    let more: Vec<_> = (0..50).map(|i| pod(&format!("more{i}"), "10m")).collect();
    word.pods.extend(keep(&more).pods);
    keeper.sink().send(word);
    until(&f, &keeper, "the version", |p| p.get("a").is_some_and(|p| p.version == 1));
    assert_eq!(shares(&f, &f.path(&a)), settled(&f, 204));
}

/// Nobody says that the volumes are gone.
#[test]
fn volumes_are_looked_after_without_a_word() {
    let Some(f) = Fixture::make("look") else { return };
    let keeper = f.start(keep([&pod("a", "100m")]));
    f.volumes.lock().insert("a".into());
    keeper.sink().send(keep(&[]));
    until(&f, &keeper, "a problem", |p| p.get("a").is_some_and(|p| p.problem.is_some()));
    f.volumes.lock().clear();
    until(&f, &keeper, "gone", Places::is_empty);
}

#[test]
fn what_cannot_be_noted_is_not_made_and_tried_again() {
    let Some(f) = Fixture::make("notes") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "100m"));
    let keeper = f.start(keep([&a]));
    // A directory where the file's new version would be.
    let obstacle = f.state.path().join("hierarchy.json.new");
    std::fs::create_dir(&obstacle).unwrap();
    keeper.sink().send(keep([&a, &b]));
    until(&f, &keeper, "a problem", |p| p.get("b").is_some_and(|p| p.problem.is_some()));
    assert!(!f.manager.exists(&f.path(&b)) && f.manager.exists(&f.path(&a)));
    std::fs::remove_dir(&obstacle).unwrap();
    until(&f, &keeper, "no problem", |p| p.get("b").is_some_and(|p| p.problem.is_none()));
    assert!(f.manager.exists(&f.path(&b)));
}

#[test]
fn others_pods_keep_the_levels_from_shrinking() {
    let Some(f) = Fixture::make("foreign") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "200m"));
    let burstable = f.level(QosClass::Burstable);
    drop(f.start(keep(&[])));
    f.manager.create(&format!("{burstable}/podforeign"), &Limits::default()).unwrap();
    let keeper = f.start(keep([&a, &b]));
    assert_eq!(shares(&f, &burstable), settled(&f, 307));
    keeper.sink().send(keep([&b]));
    until(&f, &keeper, "without a", |p| uids(p) == BTreeSet::from(["b"]));
    assert_eq!(shares(&f, &burstable), settled(&f, 307));
    assert_eq!(keeper.status().lock().foreign, [format!("{burstable}/podforeign")]);
}

#[test]
fn without_a_cgroup_for_each_pod_the_runtime_finds_a_place() {
    let Some(mut f) = Fixture::make("noqos") else { return };
    f.settings.cgroups_per_qos = false;
    let keeper = f.start(keep([&pod("a", "100m")]));
    let place = Place {
        path: f.settings.cgroup_root.clone(),
        cgroup_parent: String::new(),
        problem: None,
        version: 0,
    };
    assert_eq!(**keeper.places().borrow(), Places::from([("a".to_owned(), place)]));
}

/// A drifted container is put right by what its runtime was told, but not while it is being resized, and not when a
/// newer word is on its way.
#[test]
fn a_container_that_is_resized_is_left_alone() {
    let Some(f) = Fixture::make("resize") else { return };
    let (small, large) = (pod("a", "100m"), pod("a", "200m"));
    let mut syncer = f.syncer();
    syncer.setup.namer = Box::new(|identity| {
        let mut named = (**identity).clone();
        if let Identity::Container { names, .. } = &mut named {
            *names = Some(ContainerNames { name: "c".into(), image: "i".into() });
        }
        Arc::new(named)
    });
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    let container = format!("{}/{}", f.path(&small), "c0".repeat(32));
    let drift = |shares: u64| {
        let limits = Limits { cpu: Some(CpuShare::Shares(shares)), ..Limits::default() };
        f.manager.set(&container, &limits).unwrap();
    };
    let word = |pod: &Arc<Pod>, told: &Arc<Pod>| Keep {
        pods: vec![Kept { pod: pod.clone(), told: told.clone(), version: 0, origin: "/m/a".into() }],
        ..Keep::default()
    };
    syncer.begin(word(&small, &small));
    syncer.turn(Turn::Whole, &mut destroyer);
    f.manager.create(&container, &Limits::default()).unwrap();
    syncer.turn(Turn::Whole, &mut destroyer);
    for (pod, told, set, expected) in [
        (&small, &small, 500, 102),
        (&large, &small, 500, 500),
        (&large, &large, 500, 204),
        (&large, &small, 102, 102),
        (&small, &small, 500, 102),
    ] {
        syncer.begin(word(pod, told));
        // Whoever grows a pod makes room first.
        syncer.turn(Turn::Part, &mut destroyer);
        drift(set);
        syncer.turn(Turn::Whole, &mut destroyer);
        assert_eq!(shares(&f, &container), settled(&f, expected), "{set}");
    }
    drift(500);
    syncer.words().fetch_add(1, std::sync::atomic::Ordering::Release);
    syncer.turn(Turn::Whole, &mut destroyer);
    assert_eq!(shares(&f, &container), settled(&f, 500));
    syncer.keep(word(&small, &small));
    syncer.turn(Turn::Whole, &mut destroyer);
    assert_eq!(shares(&f, &container), settled(&f, 102));
}
