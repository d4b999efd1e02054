//! Killing one by one, on this machine's kernel, as if it had no v2 tree.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;

use super::*;
use crate::cgroup::fixture::TestTree;
use crate::cgroup::{Controller, Facts, Layout};

/// The machine's v1 hierarchies alone; none where the controllers are on v2.
fn v1_alone() -> Option<GroupFiles> {
    let mut facts = Facts::gather(Path::new("/")).ok()?;
    facts.mounts.retain(|mount| mount.version == Version::V1);
    Some(GroupFiles::new(Arc::new(Layout::decide(&facts).ok()?)))
}

fn gone(files: &GroupFiles, path: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_empty(files, path).unwrap() {
        assert!(Instant::now() < deadline, "{path} does not get empty");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn processes_that_fork_are_killed_one_by_one() {
    let Some(files) = v1_alone() else {
        nodewarden_testing::skip("the controllers are on v2");
        return;
    };
    let Some(tree) = TestTree::make("at-once") else { return };
    let path = tree.group("pod");
    tree.group("pod/c");
    tree.run("pod/c", "for i in 1 2 3; do (while :; do sleep 0.3 & sleep 0.001; done) & done; wait");
    sleep(Duration::from_millis(200));
    let mut held = 0;
    let release = |exiting: Held| {
        held += exiting.0.len();
        exiting.release();
    };
    let killed = kill_now(&files, &path, Duration::from_secs(5), None, release).unwrap();
    assert!(killed.processes > 3 && (1..=HELD).contains(&held), "{killed:?}, {held}");
    gone(&files, &path);
    sleep(Duration::from_millis(100));
    assert!(is_empty(&files, &path).unwrap(), "nothing comes back");
}

#[test]
fn processes_that_were_frozen_before_are_killed_too() {
    let Some(files) = v1_alone().filter(|files| files.layout().freezer().is_some()) else {
        nodewarden_testing::skip("no v1 freezer");
        return;
    };
    let Some(tree) = TestTree::make("at-once-frozen") else { return };
    let path = tree.group("pod");
    tree.run("pod", "sleep 60");
    let freezer = files.layout().freezer().unwrap();
    std::fs::write(join(freezer, &path).join("freezer.state"), "FROZEN").unwrap();
    assert!(kill_now(&files, &path, Duration::from_secs(5), None, drop).unwrap().processes > 0);
    gone(&files, &path);
}

#[test]
fn a_cgroup_with_this_process_or_of_no_pod_is_refused() {
    let Ok(layout) = Layout::detect() else {
        nodewarden_testing::skip("no cgroups here");
        return;
    };
    let files = GroupFiles::new(Arc::new(layout));
    for path in ["/", "", "/a/../b"] {
        let error = kill_now(&files, path, Duration::ZERO, None, drop).unwrap_err();
        assert!(matches!(error, DestroyError::Cgroup(_)), "{path}: {error}");
    }
    let Some(tree) = TestTree::make("at-once-own") else { return };
    let path = tree.group("pod");
    let pid = tree.run("pod", "sleep 60");
    // As if the shell were this process.
    let error = refuse_own(&path, &[1, pid as i32].into()).unwrap_err();
    assert!(matches!(error, DestroyError::Holds { pid: 1, .. }), "{error}");
    assert_eq!(kill_now(&files, &tree.path("none"), Duration::ZERO, None, drop).unwrap().processes, 0);
}

#[test]
fn a_process_that_is_in_another_hierarchy_alone_is_killed_too() {
    let Some(tree) = TestTree::make("at-once-elsewhere") else { return };
    let of = |controller| tree.layout.hierarchy(controller).map(|hierarchy| hierarchy.id);
    if of(Controller::Cpu) == of(Controller::Memory) {
        nodewarden_testing::skip("one hierarchy has both controllers");
        return;
    }
    let path = tree.group("pod");
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    tree.write(Controller::Cpu, "pod", "cgroup.procs", &child.id().to_string());
    let files = GroupFiles::new(tree.layout.clone());
    let killed = kill_now(&files, &path, Duration::from_secs(5), None, drop);
    let _ = child.kill();
    let status = child.wait().unwrap();
    assert_eq!(killed.unwrap().processes, 1, "{status}");
}

#[test]
fn a_target_is_killed_with_what_was_started_in_it_since() {
    let Some(tree) = TestTree::make("at-once-target") else { return };
    let files = GroupFiles::new(tree.layout.clone());
    let path = tree.group("pod");
    tree.group("pod/a");
    assert!(KillTarget::open(&files, &path, |_| false).is_none(), "it has no process");
    tree.run("pod/a", "sleep 60");
    sleep(Duration::from_millis(200));
    let Some(target) = KillTarget::open(&files, &path, |_| false) else {
        nodewarden_testing::skip("no cgroup.kill");
        return;
    };
    tree.group("pod/b");
    tree.run("pod/b", "sleep 60");
    sleep(Duration::from_millis(200));
    let mut held = 0;
    let count = |exiting: Held| held += exiting.0.len();
    let killed = kill_now(&files, &path, Duration::from_secs(5), Some(&target), count).unwrap();
    assert!(killed.processes > 0 && held > 0, "{killed:?}, {held}");
    gone(&files, &path);
    assert!(target.list().is_none(), "no process is left");
    // Then it is done without the target.
    tree.write(Controller::Pids, "pod", "pids.max", "max");
    tree.run("pod/b", "sleep 60");
    sleep(Duration::from_millis(200));
    assert!(kill_now(&files, &path, Duration::from_secs(5), Some(&target), drop).unwrap().processes > 0);
    gone(&files, &path);
    let other = kill_now(&files, &tree.path("other"), Duration::ZERO, Some(&target), drop).unwrap();
    assert_eq!(other.processes, 0, "the target is another cgroup");
}

#[test]
fn a_sandbox_is_left_while_others_exit() {
    let Some(tree) = TestTree::make("at-once-sandbox") else { return };
    let files = GroupFiles::new(tree.layout.clone());
    let path = tree.group("pod");
    tree.group("pod/sandbox");
    tree.group("pod/c");
    tree.run("pod/sandbox", "exec sleep 60");
    sleep(Duration::from_millis(200));
    let open = || KillTarget::open(&files, &path, |name| name == "sandbox");
    let Some(alone) = open() else {
        nodewarden_testing::skip("no cgroup.kill");
        return;
    };
    assert!(alone.sandbox().is_empty(), "a process that is alone is not left");
    tree.run("pod/c", "sleep 60 & sleep 60");
    sleep(Duration::from_millis(200));
    let target = open().unwrap();
    let left = target.sandbox();
    assert_eq!(left.len(), 1);
    let killed = kill_now(&files, &path, Duration::from_secs(5), Some(&target), drop).unwrap();
    assert!(killed.processes >= 2 && killed.has_sandbox, "{killed:?}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !target.is_empty() {
        assert!(Instant::now() < deadline, "the others do not end");
        sleep(Duration::from_millis(1));
    }
    assert_eq!(members::pids(&files, &members::subtree(&files, &path).unwrap()).unwrap(), left);
    let rest = kill_now(&files, &path, Duration::from_secs(5), None, drop).unwrap();
    assert_eq!((rest.processes, rest.has_sandbox), (1, false));
    gone(&files, &path);
}
