//! The hierarchy manager on this machine's kernel.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodewarden_model::Detail;

use super::*;
use crate::desired::{DesiredCgroup, PodCgroupState};
use crate::fixture::{Fixture, elsewhere, keep, pod};
use crate::manager::HierarchyManager;
use nodewarden_machine::cgroup::control::{CpuShare, DriverKind, Limits};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;
use nodewarden_model::{ContainerNames, Identity};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the pod cgroups satisfy `so`.
fn until(f: &Fixture, hierarchy: &HierarchyManager, what: &str, so: impl Fn(&PodCgroupStates) -> bool) {
    let mut places = hierarchy.pod_cgroups();
    let reached = f.runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async { places.wait_for(|p| so(p)).await.is_ok() }).await
    });
    assert_eq!(reached.ok(), Some(true), "never {what}: {:?}", hierarchy.pod_cgroups().borrow());
}

fn uids(places: &PodCgroupStates) -> BTreeSet<&str> {
    places.iter().map(|(uid, _)| uid).collect()
}

fn shares(f: &Fixture, path: &str) -> Option<CpuShare> {
    f.manager.read(path).unwrap().cpu
}

fn settled(f: &Fixture, shares: u64) -> Option<CpuShare> {
    f.manager.settled(&Limits { cpu: Some(CpuShare::Shares(shares)), ..Limits::default() }).cpu
}

#[test]
fn the_state_of_a_pod_cgroup_is_published_as_long_as_it_exists() {
    let Some(f) = Fixture::make("places") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "200m"));
    let hierarchy = f.start(keep([&a]));
    // Published before `start` returns.
    let place = PodCgroupState {
        path: f.path(&a).into(),
        driver: Some(DriverKind::Cgroupfs),
        problem: None,
        former: None,
        version: 0,
    };
    assert_eq!(hierarchy.pod_cgroups().borrow().get("a"), Some(&place));
    hierarchy.handle().send(keep([&a, &b]));
    until(&f, &hierarchy, "b", |p| uids(p) == BTreeSet::from(["a", "b"]));
    assert!(f.manager.exists(&f.path(&b)));
    assert_eq!(shares(&f, &f.path(&b)), settled(&f, 204));
    assert_eq!(shares(&f, &f.level(QosClass::Burstable)), settled(&f, 307));
    hierarchy.handle().send(keep([&b]));
    until(&f, &hierarchy, "without a", |p| uids(p) == BTreeSet::from(["b"]));
    assert!(!f.manager.exists(&f.path(&a)));
    assert_eq!(shares(&f, &f.level(QosClass::Burstable)), settled(&f, 204));
}

/// Partial reconciles leave the same limits as a full one would.
#[test]
fn after_many_changes_a_full_reconcile_finds_nothing_to_do() {
    let Some(f) = Fixture::make("parts") else { return };
    let hierarchy = f.start(keep(&[]));
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
        hierarchy.handle().send(keep(&pods));
        last = pods;
        // Some updates come together, some one by one.
        std::thread::sleep(Duration::from_millis(round % 4));
    }
    let wanted: BTreeSet<&str> = last.iter().map(|p| p.uid.as_str()).collect();
    until(&f, &hierarchy, "the last pods", |p| {
        uids(p) == wanted && p.iter().all(|(_, p)| p.problem.is_none())
    });
    let status = hierarchy.status();
    let deadline = Instant::now() + PATIENCE;
    while !status.read().removing.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(status.read().problems, [""; 0]);
    drop(hierarchy);
    let found: Vec<_> = last.iter().map(|p| f.manager.read(&f.path(p)).unwrap()).collect();
    let level = f.manager.read(&f.level(QosClass::Burstable)).unwrap();
    let again = f.start(keep(&last));
    assert_eq!(again.status().read().corrections, 0);
    assert_eq!(found, last.iter().map(|p| f.manager.read(&f.path(p)).unwrap()).collect::<Vec<_>>());
    assert_eq!(level, f.manager.read(&f.level(QosClass::Burstable)).unwrap());
}

#[test]
fn a_pod_cgroup_stays_with_the_lowest_cpu_share_while_volumes_exist() {
    let Some(f) = Fixture::make("volumes") else { return };
    let a = pod("a", "100m");
    let hierarchy = f.start(keep([&a]));
    f.volumes.lock().insert("a".into());
    hierarchy.handle().send(keep(&[]));
    until(&f, &hierarchy, "a problem", |p| p.get("a").is_some_and(|p| p.problem.is_some()));
    let deadline = Instant::now() + PATIENCE;
    while shares(&f, &f.path(&a)) != settled(&f, 2) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(shares(&f, &f.path(&a)), settled(&f, 2));
    // It is wanted again: not a correction, since this agent reduced the share.
    hierarchy.handle().send(keep([&a]));
    until(&f, &hierarchy, "no problem", |p| p.get("a").is_some_and(|p| p.problem.is_none()));
    assert_eq!(shares(&f, &f.path(&a)), settled(&f, 102));
    assert_eq!(hierarchy.status().read().corrections, 0);
    hierarchy.handle().send(keep(&[]));
    until(&f, &hierarchy, "a problem again", |p| p.get("a").is_some_and(|p| p.problem.is_some()));
    f.volumes.lock().clear();
    hierarchy.handle().volumes_changed();
    until(&f, &hierarchy, "gone", PodCgroupStates::is_empty);
    assert!(!f.manager.exists(&f.path(&a)));
}

/// Also while many others are created in the same reconcile, and states are published in between.
#[test]
fn the_published_version_is_that_of_the_written_limits() {
    let Some(f) = Fixture::make("version") else { return };
    let hierarchy = f.start(keep([&pod("a", "100m")]));
    let a = pod("a", "200m");
    let mut word = keep([&a]);
    word.pods[0].version = 1;
    let more: Vec<_> = (0..50).map(|i| pod(&format!("more{i}"), "10m")).collect();
    word.pods.extend(keep(&more).pods);
    hierarchy.handle().send(word);
    until(&f, &hierarchy, "the version", |p| p.get("a").is_some_and(|p| p.version == 1));
    assert_eq!(shares(&f, &f.path(&a)), settled(&f, 204));
}

/// Without a notification that the volumes are gone.
#[test]
fn the_removal_of_volumes_is_noticed_without_a_notification() {
    let Some(f) = Fixture::make("look") else { return };
    let hierarchy = f.start(keep([&pod("a", "100m")]));
    f.volumes.lock().insert("a".into());
    hierarchy.handle().send(keep(&[]));
    until(&f, &hierarchy, "a problem", |p| p.get("a").is_some_and(|p| p.problem.is_some()));
    f.volumes.lock().clear();
    until(&f, &hierarchy, "gone", PodCgroupStates::is_empty);
}

#[test]
fn a_cgroup_that_cannot_be_recorded_is_not_created_and_retried() {
    let Some(f) = Fixture::make("notes") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "100m"));
    let hierarchy = f.start(keep([&a]));
    // A directory where the file's new version would be.
    let obstacle = f.state.path().join("hierarchy.json.new");
    std::fs::create_dir(&obstacle).unwrap();
    hierarchy.handle().send(keep([&a, &b]));
    until(&f, &hierarchy, "a problem", |p| p.get("b").is_some_and(|p| p.problem.is_some()));
    assert!(!f.manager.exists(&f.path(&b)) && f.manager.exists(&f.path(&a)));
    std::fs::remove_dir(&obstacle).unwrap();
    until(&f, &hierarchy, "no problem", |p| p.get("b").is_some_and(|p| p.problem.is_none()));
    assert!(f.manager.exists(&f.path(&b)));
}

/// Without a runtime, foreign cgroups are never removed.
#[test]
fn foreign_pod_cgroups_keep_the_levels_from_shrinking() {
    let Some(f) = Fixture::make("foreign") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "200m"));
    let burstable = f.level(QosClass::Burstable);
    drop(f.start(keep(&[])));
    f.manager.create(&format!("{burstable}/podforeign"), &Limits::default()).unwrap();
    let hierarchy = f.start(keep([&a, &b]));
    assert_eq!(shares(&f, &burstable), settled(&f, 307));
    hierarchy.handle().send(keep([&b]));
    until(&f, &hierarchy, "without a", |p| uids(p) == BTreeSet::from(["b"]));
    assert_eq!(shares(&f, &burstable), settled(&f, 307));
    let status = hierarchy.status();
    let status = status.read();
    assert_eq!(status.foreign, [format!("{burstable}/podforeign")]);
    // It is said why, and counted.
    assert!(status.problems.iter().any(|p| p.contains("podforeign")), "{:?}", status.problems);
    assert_eq!(status.withheld_limits, 1);
}

#[test]
fn without_cgroups_per_qos_the_runtime_chooses_the_cgroup() {
    let Some(mut f) = Fixture::make("noqos") else { return };
    f.settings.cgroups_per_qos = false;
    let hierarchy = f.start(keep([&pod("a", "100m")]));
    let place = PodCgroupState {
        path: f.settings.cgroup_root.as_str().into(),
        driver: None,
        problem: None,
        former: None,
        version: 0,
    };
    assert_eq!(**hierarchy.pod_cgroups().borrow(), [("a".into(), place)].into_iter().collect());
}

/// A drifted container is corrected to what its runtime was given, but not while it is being resized, and not
/// when an update is pending.
#[test]
fn a_container_that_is_being_resized_is_not_corrected() {
    let Some(f) = Fixture::make("resize") else { return };
    let (small, large) = (pod("a", "100m"), pod("a", "200m"));
    let mut reconciler = f.reconciler();
    reconciler.setup.namer = Box::new(|identity| {
        let mut named = (**identity).clone();
        if let Identity::Container { names, .. } = &mut named {
            *names = Some(ContainerNames { name: "c".into(), image: "i".into() }.into());
        }
        Arc::new(named)
    });
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    let container = format!("{}/{}", f.path(&small), "c0".repeat(32));
    let drift = |shares: u64| {
        let limits = Limits { cpu: Some(CpuShare::Shares(shares)), ..Limits::default() };
        elsewhere(|| f.manager.set(&container, &limits)).unwrap();
    };
    let word = |pod: &Arc<Pod>, applied: &Arc<Pod>| DesiredCgroups {
        pods: vec![DesiredCgroup {
            pod: pod.clone(),
            applied: applied.clone(),
            version: 0,
            origin: "/m/a".into(),
        }],
        ..DesiredCgroups::default()
    };
    reconciler.begin(word(&small, &small));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    elsewhere(|| f.manager.create(&container, &Limits::default())).unwrap();
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    for (pod, applied, set, expected) in [
        (&small, &small, 500, 102),
        (&large, &small, 500, 500),
        (&large, &large, 500, 204),
        (&large, &small, 102, 102),
        (&small, &small, 500, 102),
    ] {
        reconciler.begin(word(pod, applied));
        // A partial reconcile grows the pod's cgroup first.
        reconciler.reconcile(Reconcile::Partial, &mut destroyer);
        drift(set);
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        assert_eq!(shares(&f, &container), settled(&f, expected), "{set}");
    }
    drift(500);
    reconciler.pending_updates().fetch_add(1, std::sync::atomic::Ordering::Release);
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    assert_eq!(shares(&f, &container), settled(&f, 500));
    reconciler.keep(word(&small, &small));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    assert_eq!(shares(&f, &container), settled(&f, 102));
}

/// The reasons and messages of events about the hierarchy.
fn hierarchy_events(f: &Fixture) -> Vec<String> {
    f.runtime.block_on(async {
        let mut events = f.journal.subscribe(Some(Timestamp::UNIX_EPOCH)).backlog_only();
        let mut found = Vec::new();
        while let Some(event) = events.next().await {
            if let Detail::Hierarchy { reason, message } = &event.detail {
                found.push(format!("{reason}: {message}"));
            }
        }
        found
    })
}

#[test]
fn node_allocatable_is_reported_as_by_a_kubelet_and_shown() {
    let Some(mut f) = Fixture::make("allocatable") else { return };
    let system = f.tree.path("system");
    f.manager.create(&system, &Limits::default()).unwrap();
    f.settings.enforce = vec![nodewarden_config::Enforce::Pods, nodewarden_config::Enforce::SystemReserved];
    f.settings.system_reserved_cgroup = Some(system.clone());
    let reserved = nodewarden_manifest::Quantity::parse("100m").unwrap();
    f.settings.system_reserved = [("cpu".to_owned(), reserved)].into();
    let mut reconciler = f.reconciler();
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    reconciler.begin(keep(&[]));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    let done = [
        "NodeAllocatableEnforced: Updated Node Allocatable limit across pods".to_owned(),
        format!("NodeAllocatableEnforced: Updated limits on system reserved cgroup {system}"),
    ];
    let enforced = |f: &Fixture| -> Vec<String> {
        hierarchy_events(f).into_iter().filter(|event| event.contains("AllocatableEnforce")).collect()
    };
    assert_eq!(enforced(&f), done, "once each");
    let cpu = reconciler.status().read().resources.iter().find(|own| own.name == "cpu").cloned().unwrap();
    assert_eq!(cpu.capacity - cpu.allocatable, 100);

    f.manager.destroy(&system, PATIENCE).unwrap();
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    let failed = format!(
        "FailedNodeAllocatableEnforcement: Failed to enforce System Reserved Cgroup Limits on {system:?}: "
    );
    assert!(enforced(&f).last().unwrap().starts_with(&failed), "{:?}", enforced(&f));
}

/// A node has a thousand pods, most of them with the limits of others.
#[test]
fn limits_and_paths_of_pods_are_held_once() {
    let Some(f) = Fixture::make("shared") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "100m"));
    let mut reconciler = f.reconciler();
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    reconciler.begin(keep([&a, &b]));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    // The wanted limits are computed again.
    reconciler.keep(keep([&a, &b, &pod("c", "200m")]));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    let [of_a, of_b] = [f.path(&a), f.path(&b)];
    let wanted = reconciler.wanted.clone();
    for maps in [&wanted.exact, &wanted.limits] {
        assert!(Arc::ptr_eq(&maps[&*of_a], &maps[&*of_b]));
    }
    assert!(Arc::ptr_eq(&wanted.limits[&*of_a], &reconciler.written[&*of_b]));
    let (path, _) = reconciler.setup.owned.pods().get_key_value(&*of_a).unwrap();
    let states = reconciler.pod_cgroups().borrow().clone();
    let others = [
        wanted.pods.get_key_value(&*of_a).unwrap().0,
        wanted.exact.get_key_value(&*of_a).unwrap().0,
        wanted.limits.get_key_value(&*of_a).unwrap().0,
        reconciler.written.get_key_value(&*of_a).unwrap().0,
        reconciler.existing.get(&*of_a).unwrap(),
        &states.get("a").unwrap().path,
    ];
    assert!(others.into_iter().all(|other| Arc::ptr_eq(other, path)));
}
