//! Killing by freezing, on this machine's kernel, as if it had no `cgroup.kill`.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::*;
use crate::cgroup::control::Interface;
use crate::cgroup::fixture::TestTree;
use crate::cgroup::{Facts, Layout, MountFact, Version};

/// The machine's v2 tree alone, as if every controller were on it.
fn unified_alone(layout: &Layout) -> Option<Arc<Layout>> {
    let mount = layout.unified()?.mount.clone();
    let fact = MountFact {
        root: "/".to_owned(),
        mount_point: mount,
        version: Version::V2,
        controllers: vec!["cpu".to_owned(), "memory".to_owned()],
        visible: true,
    };
    Layout::decide(&Facts { mounts: vec![fact], memberships: Vec::new() }).ok().map(Arc::new)
}

#[test]
fn every_freezer_stops_processes_that_fork() {
    let Some(tree) = TestTree::make("freezer") else { return };
    let views = [Some(tree.layout.clone()), unified_alone(&tree.layout)];
    for (n, layout) in views.into_iter().flatten().enumerate() {
        let interface = Interface::new(&layout, 4096, Vec::new());
        let files = GroupFiles::with(layout, interface);
        let name = format!("pod{n}");
        let path = tree.group(&name);
        tree.group(&format!("{name}/c1"));
        tree.run(&format!("{name}/c1"), "while :; do sleep 0.2 & sleep 0.01; done");
        sleep(Duration::from_millis(100));
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut passes = 0;
        loop {
            let groups = members::subtree(&files, &path).unwrap();
            let pids = members::pids(&files, &groups).unwrap();
            if pids.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{pids:?} are left after {passes} passes");
            passes += 1;
            assert!(!kill_frozen(&files, &path, &groups).unwrap().is_empty() || passes > 1);
            sleep(Duration::from_millis(20));
        }
        assert!(passes > 0);
        // Nothing stays frozen.
        let left: Vec<PathBuf> = files.directories(&path).map(|(_, dir)| dir.join("freezer.state")).collect();
        let frozen = |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text.trim() != "THAWED");
        assert!(!left.iter().any(frozen), "{left:?}");
    }
}

/// A number that now belongs to a process elsewhere is left alone.
#[test]
fn a_process_that_is_not_in_the_cgroup_is_not_killed() {
    let Some(tree) = TestTree::make("elsewhere") else { return };
    let files = GroupFiles::new(tree.layout.clone());
    let path = tree.group("pod");
    tree.group("pod-2");
    let pid = tree.run("pod-2", "exec sleep 60");
    let lives = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "));
    for stale in [pid as i32, 0, 1, own_pid()] {
        kill_one(&files, stale, &path);
    }
    sleep(Duration::from_millis(50));
    assert!(lives());
    kill_one(&files, pid as i32, &tree.path("pod-2"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while lives() {
        assert!(Instant::now() < deadline, "{pid} lives on");
        sleep(Duration::from_millis(5));
    }
}
