//! Changed settings and a changed machine: pods that are still in the cgroup of earlier settings, and a
//! capacity that is not what it was.

use std::time::Duration;

use crate::fixture::{Fixture, PATIENCE, eventually, keep, pod};
use nodewarden_machine::cgroup::control::{Bound, Limits};
use nodewarden_machine::node::gather::Sources;
use nodewarden_manifest::QosClass;
use nodewarden_model::Detail;

/// Its processes are the worker's to end; with volumes or without.
#[test]
fn a_pod_that_runs_in_a_cgroup_of_earlier_settings_is_not_killed() {
    let Some(mut f) = Fixture::make("moved") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "100m"));
    drop(f.start(keep([&a, &b])));
    f.volumes.lock().insert("a".into());
    let (old, old_of_b) = (f.path(&a), f.path(&b));
    let below = old.strip_prefix(&format!("{}/", f.tree.path(""))).unwrap().to_owned();
    let process = f.tree.run(&below, "exec sleep 600");
    let lives = || std::path::Path::new(&format!("/proc/{process}")).exists();
    let share = f.manager.read(&old).unwrap().cpu;
    f.move_root("elsewhere");
    let hierarchy = f.start(keep([&a, &b]));
    let places = hierarchy.pod_cgroups();
    let place = places.borrow().get("a").cloned().unwrap();
    assert_eq!((&*place.path, place.former), (&*f.path(&a), Some(old.clone())));
    assert!(lives());
    assert_eq!(f.manager.read(&old).unwrap().cpu, share);
    // Nothing was in that of the other pod.
    eventually("without the empty one", || !f.manager.exists(&old_of_b));
    assert_eq!(places.borrow().get("b").unwrap().former, None);
    assert!(hierarchy.status().read().pods.iter().any(|pod| pod.problem.contains(&old)));
    assert!(lives());
    f.tree.stop(process);
    eventually("without the old cgroup", || !f.manager.exists(&old));
    eventually("without a former", || places.borrow().get("a").unwrap().former.is_none());
    assert!(f.manager.exists(&f.path(&a)));
    drop(hierarchy);
    // Both roots are removed with the tree.
    f.manager.destroy(&f.level(QosClass::Guaranteed), PATIENCE).unwrap();
}

/// A change of the cgroup driver gives pods other paths as well. Here the directories that the systemd driver
/// names are made by hand.
#[test]
fn a_pod_that_runs_in_a_cgroup_of_the_other_driver_is_not_killed() {
    let Some(f) = Fixture::make("moved-driver") else { return };
    let a = pod("a", "100m");
    let below = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda.slice";
    let parts: Vec<&str> = below.split('/').collect();
    let old = (1..=parts.len()).map(|n| f.tree.group(&parts[..n].join("/"))).last().unwrap();
    f.record(&old, &a);
    let process = f.tree.run(below, "exec sleep 600");
    let lives = || std::path::Path::new(&format!("/proc/{process}")).exists();
    let hierarchy = f.start(keep([&a]));
    let places = hierarchy.pod_cgroups();
    let place = places.borrow().get("a").cloned().unwrap();
    assert_eq!((&*place.path, place.former), (&*f.path(&a), Some(old.clone())));
    std::thread::sleep(Duration::from_millis(300));
    assert!(lives() && f.manager.exists(&old));
    f.tree.stop(process);
    eventually("without the old cgroup", || !f.manager.exists(&old));
    eventually("without a former", || places.borrow().get("a").unwrap().former.is_none());
    let level = f.tree.path(parts[0]);
    assert!(f.manager.exists(&level), "the record does not say that this agent made it");
    drop(hierarchy);
    f.manager.destroy(&level, PATIENCE).unwrap();
    f.manager.destroy(&f.level(QosClass::Guaranteed), PATIENCE).unwrap();
}

/// The levels of the old `cgroupRoot` go when nothing is in them: those that the agent created, nothing else.
#[test]
fn empty_levels_of_an_earlier_root_are_removed_if_the_agent_created_them() {
    let Some(mut f) = Fixture::make("moved-levels") else { return };
    // Not the agent's: it was there before the agent.
    f.move_root("one");
    let foreign = f.level(QosClass::BestEffort);
    f.manager.create(&f.level(QosClass::Guaranteed), &Limits::default()).unwrap();
    f.manager.create(&foreign, &Limits::default()).unwrap();
    let a = pod("a", "100m");
    drop(f.start(keep([&a])));
    let (kubepods, burstable) = (f.level(QosClass::Guaranteed), f.level(QosClass::Burstable));
    f.move_root("two");
    drop(f.start(keep([&a])));
    let second =
        [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed].map(|class| f.level(class));
    // An empty cgroup that is not the agent's.
    let guest = format!("{}/guest", second[1]);
    f.manager.create(&guest, &Limits::default()).unwrap();
    f.move_root("three");
    let hierarchy = f.start(keep([&a]));
    let again = || hierarchy.handle().volumes_changed();
    eventually("without the agent's level of the first root", || {
        again();
        !f.manager.exists(&burstable)
    });
    assert!(f.manager.exists(&kubepods) && f.manager.exists(&foreign), "they are not the agent's");
    eventually("without the empty level of the second root", || {
        again();
        !f.manager.exists(&second[0])
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(f.manager.exists(&second[1]) && f.manager.exists(&second[2]), "a cgroup is in them");
    f.manager.remove_empty(&guest).unwrap();
    eventually("without the second root's", || {
        again();
        !f.manager.exists(&second[2])
    });
    assert!(f.manager.exists(&f.path(&a)));
    let removed = |event: &nodewarden_model::Event| matches!(&event.detail, Detail::Hierarchy { reason, .. } if reason == "FormerLevelRemoved");
    assert_eq!(f.events().into_iter().filter(removed).count(), 4);
    drop(hierarchy);
    for path in [kubepods, f.level(QosClass::Guaranteed)] {
        f.manager.destroy(&path, PATIENCE).unwrap();
    }
}

/// The files of a machine with `cpus` online, `kib` of memory and `pages` huge pages of 2 MiB.
fn machine(root: &std::path::Path, cpus: &str, kib: u64, pages: u64) {
    let files = [
        ("sys/devices/system/cpu/online", format!("{cpus}\n")),
        ("proc/meminfo", format!("MemTotal: {kib} kB\nSwapTotal: 0 kB\n")),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", format!("{pages}\n")),
        ("proc/sys/kernel/pid_max", "32768\n".to_owned()),
        ("proc/sys/kernel/threads-max", "32768\n".to_owned()),
    ];
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn a_changed_capacity_is_published_and_limits_follow_it() {
    let Some(mut f) = Fixture::make("capacity") else { return };
    let root = tempfile::tempdir().unwrap();
    machine(root.path(), "0-1", 4 << 20, 0);
    f.sources = Sources::below(root.path());
    f.period = Duration::from_millis(100);
    let kubepods = f.level(QosClass::Guaranteed);
    let hierarchy = f.start(keep(&[]));
    let mut capacity = hierarchy.capacity();
    let first = capacity.borrow_and_update().clone();
    assert_eq!((first.cpu_milli, first.memory_bytes), (2000, 4 << 30));
    let limits = || f.manager.read(&kubepods).unwrap();
    let before = limits();
    machine(root.path(), "0", 2 << 20, 3);
    f.runtime.block_on(async { tokio::time::timeout(PATIENCE, capacity.changed()).await }).unwrap().unwrap();
    let now = capacity.borrow().clone();
    assert_eq!((now.cpu_milli, now.memory_bytes), (1000, 2 << 30));
    assert_eq!(now.hugepages.values().copied().collect::<Vec<_>>(), [6 << 20]);
    eventually("other limits", || limits().cpu != before.cpu && limits().memory_max < before.memory_max);
    assert_eq!(limits().memory_max, Some(Bound::At(2 << 30)));
    let events = f.events();
    let said = events.iter().find_map(|event| match &event.detail {
        Detail::Hierarchy { reason, message } if reason == "CapacityChanged" => Some(message.clone()),
        _ => None,
    });
    let said = said.unwrap();
    assert!(said.contains("CPUs online from 0-1 to 0"), "{said}");
    // What cannot be read leaves the capacity as it was.
    std::fs::remove_file(root.path().join("proc/meminfo")).unwrap();
    eventually("a problem", || hierarchy.status().read().problems.iter().any(|p| p.contains("meminfo")));
    assert_eq!(**capacity.borrow(), *now);
}
