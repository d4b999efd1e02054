//! Pod cgroups of others on this machine's kernel: what they keep from being lowered, and when an unused one
//! is removed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, keep, pod};
use crate::manager::HierarchyManager;
use nodewarden_config::Enforce;
use nodewarden_machine::cgroup::control::{Bound, Limits};
use nodewarden_manifest::{QosClass, Quantity};
use nodewarden_model::{Detail, HierarchyStatus};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the status satisfies `so`.
fn until(hierarchy: &HierarchyManager, what: &str, so: impl Fn(&HierarchyStatus) -> bool) {
    let (status, deadline) = (hierarchy.status(), Instant::now() + PATIENCE);
    while !so(&status.read()) {
        assert!(Instant::now() < deadline, "never {what}: {:?}", status.read());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reasons of the events of the hierarchy about a path.
fn reasons(f: &Fixture, path: &str) -> Vec<String> {
    let events = f.events();
    let of_path = events.iter().filter(|event| event.cgroup == path);
    of_path
        .filter_map(|event| match &event.detail {
            Detail::Hierarchy { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .collect()
}

fn memory_max(f: &Fixture, path: &str) -> Option<Bound> {
    f.manager.read(path).unwrap().memory_max
}

/// A reserved cgroup is above no pod, and what all pods together may use does not depend on which there are.
#[test]
fn a_foreign_pod_keeps_neither_reserved_cgroups_nor_kubepods_from_being_lowered() {
    let Some(mut f) = Fixture::make("reserved") else { return };
    if f.tree.layout.hierarchy(nodewarden_machine::cgroup::Controller::Memory).is_none() {
        nodewarden_testing::skip("there is no memory controller");
        return;
    }
    let reserved = f.tree.group("daemons");
    f.settings.enforce = vec![Enforce::Pods, Enforce::KubeReserved];
    f.settings.kube_reserved = [("memory".to_owned(), Quantity::from_bytes(64 << 20))].into();
    f.settings.kube_reserved_cgroup = Some(reserved.clone());
    let (a, burstable) = (pod("a", "300m"), f.level(QosClass::Burstable));
    drop(f.start(keep([&a])));
    let kubepods = f.level(QosClass::Guaranteed);
    assert_eq!(memory_max(&f, &reserved), Some(Bound::At(64 << 20)));
    let allocatable = memory_max(&f, &kubepods);
    assert!(allocatable < Some(Bound::Max), "{allocatable:?}");
    let unlimited = Limits { memory_max: Some(Bound::Max), ..Limits::default() };
    for path in [&reserved, &kubepods] {
        f.manager.set(path, &unlimited).unwrap();
    }
    let foreign = format!("{burstable}/podforeign");
    f.manager.create(&foreign, &Limits::default()).unwrap();
    let before = f.manager.read(&burstable).unwrap();
    let hierarchy = f.start(keep(&[]));
    assert_eq!(memory_max(&f, &reserved), Some(Bound::At(64 << 20)));
    assert_eq!(memory_max(&f, &kubepods), allocatable);
    // The share of its class waits, and that is in the status and in the journal.
    assert_eq!(f.manager.read(&burstable).unwrap().cpu, before.cpu);
    until(&hierarchy, "said", |status| {
        status.withheld_limits == 1 && status.problems.iter().any(|problem| problem.contains(&foreign))
    });
    assert_eq!(reasons(&f, &burstable), ["LimitWithheld"]);
}

#[test]
fn a_foreign_pod_cgroup_that_nobody_uses_is_removed() {
    let Some(mut f) = Fixture::make("unused") else { return };
    f.period = Duration::from_millis(200);
    *f.in_use.lock() = Some(BTreeSet::from(["known".to_owned()]));
    let (a, burstable) = (pod("a", "300m"), f.level(QosClass::Burstable));
    drop(f.start(keep([&a])));
    let [unused, known, busy] = ["unused", "known", "busy"].map(|uid| format!("{burstable}/pod{uid}"));
    for path in [&unused, &known, &busy] {
        f.manager.create(path, &Limits::default()).unwrap();
    }
    // Cgroups below it, as of containers that are gone, go with it.
    f.manager.create(&format!("{unused}/c"), &Limits::default()).unwrap();
    let below = busy.strip_prefix(&format!("{}/", f.tree.path(""))).unwrap().to_owned();
    let process = f.tree.run(&below, "exec sleep 600");
    let share = f.manager.read(&burstable).unwrap().cpu;
    let hierarchy = f.start(keep(&[]));
    until(&hierarchy, "without the unused one", |status| status.foreign.len() == 2);
    assert!(!f.manager.exists(&unused));
    // Far longer than it took to remove the unused one.
    std::thread::sleep(5 * f.period);
    assert!(f.manager.exists(&known) && f.manager.exists(&busy));
    assert_eq!(reasons(&f, &unused), ["UnusedPodCgroupRemoved"]);
    assert_eq!(f.manager.read(&burstable).unwrap().cpu, share);
    // When the others are gone as well, the share of their class is lowered.
    f.tree.stop(process);
    until(&hierarchy, "without the one whose process has ended", |status| status.foreign == [known.clone()]);
    f.manager.remove_empty(&known).unwrap();
    until(&hierarchy, "without foreign ones", |status| status.withheld_limits == 0);
    assert_ne!(f.manager.read(&burstable).unwrap().cpu, share);
}

/// An agent that cannot ask the runtime does not know that it is unused.
#[test]
fn without_a_runtime_a_foreign_pod_cgroup_stays() {
    let Some(mut f) = Fixture::make("noruntime") else { return };
    f.period = Duration::from_millis(50);
    drop(f.start(keep(&[])));
    let foreign = format!("{}/podforeign", f.level(QosClass::Burstable));
    f.manager.create(&foreign, &Limits::default()).unwrap();
    let hierarchy = f.start(keep(&[]));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(hierarchy.status().read().foreign, std::slice::from_ref(&foreign));
    assert!(f.manager.exists(&foreign));
}
