//! The manager on this machine's kernel.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::*;
use crate::cgroup::control::{Bound, Cgroupfs, CpuQuota};
use crate::cgroup::fixture::TestTree;
use crate::cgroup::{Controller, Version};

const PATIENCE: Duration = Duration::from_secs(20);

fn manager(tree: &TestTree) -> Manager {
    Manager::new(Arc::new(Cgroupfs::new(tree.layout.clone())), tree.layout.clone())
}

/// Whether a process still runs; a zombie does not.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_created_cgroup_can_be_read() {
    let Some(tree) = TestTree::make("manager") else { return };
    let manager = manager(&tree);
    let (pod, container) = (tree.path("pod"), tree.path("pod/c1"));
    assert_eq!(manager.presence(&pod), Presence::Nowhere);
    assert!(!manager.exists(&pod));
    let limits = Limits {
        cpu: Some(CpuShare::Shares(1024)),
        memory_max: Some(Bound::At(64 << 20)),
        pids_max: Some(Bound::At(100)),
        ..Limits::default()
    };
    manager.create(&pod, &limits).unwrap();
    manager.create(&container, &Limits::default()).unwrap();
    assert!(manager.exists(&pod));
    assert_eq!(manager.children(&pod).unwrap(), BTreeSet::from(["c1".to_owned()]));
    let read = manager.read(&pod).unwrap();
    assert_eq!((read.cpu, read.memory_max), (manager.settled(&limits).cpu, limits.memory_max));

    let pids = [
        tree.run("pod/c1", "x=$(head -c 3000000 /dev/zero | tr '\\0' x); sleep 60 & wait"),
        tree.run("pod/c1", "exec sleep 60"),
    ];
    let deadline = Instant::now() + PATIENCE;
    while manager.usage(&pod).unwrap().memory_bytes.is_none_or(|n| n < 3_000_000) && Instant::now() < deadline
    {
        thread::sleep(Duration::from_millis(20));
    }
    let found = manager.pids(&pod).unwrap();
    assert!(pids.iter().all(|pid| found.contains(&(*pid as i32))), "{pids:?} in {found:?}");
    let usage = manager.usage(&pod).unwrap();
    assert!(usage.memory_bytes.is_some_and(|n| n >= 3_000_000), "{usage:?}");
    assert!(usage.cpu_ns.is_some_and(|n| n > 0) && usage.pids.is_none_or(|n| n >= 2), "{usage:?}");

    manager.reduce_cpu(&pod).unwrap();
    let least = match tree.layout.hierarchy(Controller::Cpu).unwrap().version {
        Version::V1 => CpuShare::Shares(2),
        Version::V2 => CpuShare::Weight(1),
    };
    assert_eq!(manager.read(&pod).unwrap().cpu, Some(least));
    assert_eq!(manager.read(&pod).unwrap().memory_max, limits.memory_max, "nothing else changes");

    let destroyed = manager.destroy(&pod, PATIENCE).unwrap();
    assert!(destroyed.killed >= 2, "{destroyed:?}");
    assert_eq!(manager.presence(&pod), Presence::Nowhere);
    assert!(pids.iter().all(|pid| !runs(*pid)));
    assert_eq!(manager.usage(&pod).unwrap(), Consumption::default());
    assert_eq!(manager.destroy(&pod, PATIENCE).unwrap().killed, 0, "nothing there is as wanted");
}

#[test]
fn for_a_comparison_only_what_can_differ_is_read() {
    let Some(tree) = TestTree::make("compared") else { return };
    let manager = manager(&tree);
    let pod = tree.path("pod");
    let quota =
        |quota_us| Limits { cpu_quota: Some(CpuQuota { quota_us, period_us: 50_000 }), ..Limits::default() };
    manager.create(&pod, &Limits { cpu: Some(CpuShare::Shares(512)), ..Limits::default() }).unwrap();
    for set in [quota(Bound::At(20_000)), quota(Bound::Max)] {
        manager.set(&pod, &set).unwrap();
        let found = manager.read_for(&pod, &Limits::default()).unwrap();
        assert_eq!((found.cpu_idle, found.memsw_max, found.pids_max), (None, None, None));
        assert_eq!((found.cpu, found.cpu_quota), (manager.read(&pod).unwrap().cpu, set.cpu_quota));
    }
}

#[test]
fn a_cgroup_in_some_hierarchies_only_is_found_and_removed() {
    let Some(tree) = TestTree::make("partly") else { return };
    let manager = manager(&tree);
    let pod = tree.path("pod");
    let dirs: Vec<PathBuf> = manager.files.directories(&pod).map(|(_, dir)| dir).collect();
    for (n, dir) in dirs.iter().enumerate() {
        fs::create_dir(dir).unwrap();
        fs::create_dir(dir.join(format!("child{n}"))).unwrap();
        let expected = if dirs.len() == 1 {
            Presence::Everywhere
        } else {
            Presence::Partly { missing: dirs.iter().filter(|other| *other != dir).cloned().collect() }
        };
        assert_eq!(manager.presence(&pod), expected);
        assert_eq!(manager.children(&pod).unwrap(), BTreeSet::from([format!("child{n}")]));
        manager.destroy(&pod, PATIENCE).unwrap();
        assert_eq!(manager.presence(&pod), Presence::Nowhere);
    }
}

/// A process that is in one hierarchy's cgroup only, each in turn, and no other process dies with it.
#[test]
fn a_process_that_is_in_one_hierarchy_only_is_killed() {
    let Some(tree) = TestTree::make("one") else { return };
    let manager = manager(&tree);
    tree.group("other");
    let bystander = tree.run("other", "exec sleep 60");
    for hierarchy in tree.layout.all() {
        let pod = tree.path("pod");
        manager.create(&pod, &Limits::default()).unwrap();
        let inside = tree.run("other", "exec sleep 60");
        let procs = crate::cgroup::group_path::join(&hierarchy.mount, &pod).join("cgroup.procs");
        fs::write(&procs, inside.to_string()).unwrap();
        assert_eq!(manager.pids(&pod).unwrap(), BTreeSet::from([inside as i32]));
        let destroyed = manager.destroy(&pod, PATIENCE).unwrap();
        assert_eq!(destroyed.killed, 1, "{}", procs.display());
        assert!(!runs(inside) && runs(bystander), "{}", procs.display());
    }
}

#[test]
fn frozen_and_forking_processes_are_killed() {
    let Some(tree) = TestTree::make("frozen") else { return };
    let manager = manager(&tree);
    let pod = tree.path("pod");
    for frozen in [false, true] {
        manager.create(&pod, &Limits { pids_max: Some(Bound::At(60)), ..Limits::default() }).unwrap();
        manager.create(&tree.path("pod/c1"), &Limits::default()).unwrap();
        tree.run("pod/c1", "while :; do sleep 0.3 & sleep 0.01; done");
        thread::sleep(Duration::from_millis(300));
        let before = manager.pids(&pod).unwrap().len();
        assert!(before > 3, "{before}");
        if frozen {
            for (dir, text) in [
                (tree.layout.freezer(), ("freezer.state", "FROZEN")),
                (tree.layout.unified().map(|h| h.mount.as_path()), ("cgroup.freeze", "1")),
            ]
            .into_iter()
            .filter_map(|(mount, text)| {
                Some((crate::cgroup::group_path::join(mount?, &tree.path("pod/c1")), text))
            }) {
                let _ = fs::write(dir.join(text.0), text.1);
            }
        }
        let destroyed = manager.destroy(&pod, PATIENCE).unwrap();
        assert!(destroyed.killed > 3, "{destroyed:?}");
        assert_eq!(manager.presence(&pod), Presence::Nowhere);
    }
}

#[test]
fn processes_that_do_not_end_are_named() {
    let Some(tree) = TestTree::make("stays") else { return };
    let manager = manager(&tree);
    // Frozen from above on v1: nothing below can end. Pure v2 kills frozen processes too.
    let Some(mount) = tree.layout.freezer() else {
        nodewarden_testing::skip("no v1 freezer");
        return;
    };
    let state = crate::cgroup::group_path::join(mount, &tree.path("level")).join("freezer.state");
    tree.group("level/pod");
    let pid = tree.run("level/pod", "exec sleep 60");
    fs::write(&state, "FROZEN").unwrap();
    let error = manager.destroy(&tree.path("level/pod"), Duration::from_millis(300)).unwrap_err();
    let text = error.to_string();
    fs::write(&state, "THAWED").unwrap();
    let DestroyError::StillThere(why) = &error else { panic!("{error}") };
    let (holdouts, frozen_from_above) = (&why.holdouts, &why.frozen_from_above);
    assert_eq!(holdouts.iter().map(|h| h.pid).collect::<Vec<_>>(), [pid as i32], "{text}");
    assert!(frozen_from_above.is_some(), "{text}");
    assert!(text.contains("frozen by a cgroup above") && text.contains(&format!("process {pid}")), "{text}");
    manager.destroy(&tree.path("level/pod"), PATIENCE).unwrap();
    assert!(!runs(pid));
}

#[test]
fn one_attempt_at_a_time_and_never_the_root_or_this_process() {
    let Some(tree) = TestTree::make("refuses") else { return };
    let manager = manager(&tree);
    for path in ["/", "", "relative", "/a/.."] {
        assert!(
            matches!(
                manager.destroy(path, PATIENCE),
                Err(DestroyError::Cgroup(CgroupError::Root | CgroupError::Name(_)))
            ),
            "{path:?}"
        );
    }
    let pod = tree.path("pod");
    manager.create(&pod, &Limits::default()).unwrap();
    tree.run("pod", "exec sleep 60");
    let together = Barrier::new(4);
    let results: Vec<_> = thread::scope(|scope| {
        let begin = || {
            together.wait();
            manager.destroy(&pod, PATIENCE)
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(results.iter().any(|r| r.as_ref().is_ok_and(|d| d.killed == 1)), "{results:?}");
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, DestroyError::InFlight { .. }), "{error}");
    }
    assert_eq!(manager.presence(&pod), Presence::Nowhere);
}
