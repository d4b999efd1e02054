//! Wake-ups by the kernel of this machine.

use std::time::{Duration, Instant};

use super::*;
use crate::gather::GroupMemory;
use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_machine::cgroup::{Controller, Version, join};

fn is_v1(tree: &TestTree) -> bool {
    tree.layout.hierarchy(Controller::Memory).is_some_and(|h| h.version == Version::V1)
}

/// Waits for a wake-up that satisfies `is` and returns how long that took.
fn wait(woken: &Receiver<Woken>, is: impl Fn(&Woken) -> bool) -> Option<Duration> {
    let begun = Instant::now();
    while let Some(left) = Duration::from_secs(20).checked_sub(begun.elapsed()) {
        match woken.recv_timeout(left) {
            Ok(one) if is(&one) => return Some(begun.elapsed()),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

fn described(sources: &WakeSources, name: &str) -> String {
    sources.watching().into_iter().find(|line| line.starts_with(name)).unwrap_or_default()
}

/// Number of descriptors of this process whose link contains `text`.
fn descriptors(text: &str) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains(text)))
        .count()
}

#[test]
fn wake_ups_from_before_the_start_are_discarded() {
    let Some(tree) = TestTree::make("wake-before") else { return };
    let wakeups = Wakeups::default();
    let waker = wakeups.waker();
    waker.wake("before");
    let (_waker, woken) = WakeSources::start(&tree.layout, &tree.group("pods"), wakeups);
    waker.wake("after");
    let first = woken.iter().find(|one| matches!(one, Woken::Agent(_)));
    assert_eq!(first, Some(Woken::Agent("after")));
}

#[test]
fn each_source_shows_whether_it_works_here() {
    let Some(tree) = TestTree::make("wake") else { return };
    let path = tree.group("pods");
    let (sources, woken) = WakeSources::start(&tree.layout, &path, Wakeups::default());
    let lines = sources.watching();
    println!("{lines:#?}");
    assert!(lines.iter().all(|line| line.contains(": on") || line.contains(": off (")), "{lines:?}");
    assert_eq!(is_v1(&tree), lines.iter().any(|line| line.starts_with("memory.oom_control kubepods: on")));
    sources.waker().wake("oom");
    assert!(wait(&woken, |one| *one == Woken::Agent("oom")).is_some());
    let waker = sources.waker();
    drop(sources);
    assert_eq!(descriptors(&path), 0);
    // Neither a full channel nor a dropped receiver blocks the caller.
    (0..1000).for_each(|_| waker.wake("x"));
    drop(woken);
    waker.wake("x");
}

#[test]
fn crossing_a_v1_threshold_wakes() {
    let Some(tree) = TestTree::make("wake-threshold") else { return };
    if !is_v1(&tree) {
        nodewarden_testing::skip("v2 has no thresholds");
        return;
    }
    let path = tree.group("pods");
    let (mut sources, woken) = WakeSources::start(&tree.layout, &path, Wakeups::default());
    let armed = |sources: &WakeSources| described(sources, "memory threshold kubepods").contains(": on");
    assert!(!armed(&sources), "none is set");
    sources.arm(None, Some(64 << 20));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !armed(&sources) {
        assert!(Instant::now() < deadline, "{:?}", sources.watching());
        thread::sleep(Duration::from_millis(1));
    }
    let before = described(&sources, "memory threshold kubepods");
    tree.run("pods", "x=$(head -c 150000000 /dev/zero | tr '\\0' x); sleep 60");
    let mut memory = GroupMemory::of(&tree.layout, &path).unwrap();
    let is_it = |one: &Woken| *one == Woken::Threshold { scope: "kubepods" };
    let after = wait(&woken, is_it).expect("woken by the threshold");
    let used = memory.read_use(&mut Vec::new()).unwrap().working_set();
    println!("woken after {after:?} with {used} bytes in use");
    // The kernel checks once per 128 pages and CPU; what is allocated until this thread runs comes on top.
    assert!(used >= 60 << 20, "{used}");
    // A move by less than a step is ignored, one by more is not, nor is removing the threshold.
    sources.arm(None, Some((64 << 20) + 4096));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(described(&sources, "memory threshold kubepods"), before);
    sources.arm(None, Some(1 << 30));
    thread::sleep(Duration::from_millis(500));
    assert!(armed(&sources) && described(&sources, "memory threshold kubepods") != before);
    sources.arm(None, None);
    thread::sleep(Duration::from_millis(500));
    assert!(!armed(&sources), "{:?}", sources.watching());
}

#[test]
fn a_cgroup_that_runs_out_of_memory_wakes() {
    let Some(tree) = TestTree::make("wake-oom") else { return };
    let path = tree.group("pods");
    tree.group("pods/pod1");
    let limit = if is_v1(&tree) { "memory.limit_in_bytes" } else { "memory.max" };
    tree.write(Controller::Memory, "pods", limit, "33554432");
    let (sources, woken) = WakeSources::start(&tree.layout, &path, Wakeups::default());
    tree.run("pods/pod1", "x=$(head -c 150000000 /dev/zero | tr '\\0' x)");
    let after = wait(&woken, |one| matches!(one, Woken::MemoryEvents { .. }));
    println!("woken after {:?}", after.expect("woken by the cgroup's events"));
    drop(sources);
}

#[test]
fn sources_follow_the_removal_and_creation_of_a_cgroup() {
    let Some(tree) = TestTree::make("wake-gone") else { return };
    let path = tree.path("pods");
    let name = if is_v1(&tree) { "memory.oom_control kubepods" } else { "memory.events kubepods" };
    let (mut sources, woken) = WakeSources::start(&tree.layout, &path, Wakeups::default());
    assert!(described(&sources, name).contains(": off ("), "not there yet: {:?}", sources.watching());
    let mut until = |on: bool| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while described(&sources, name).contains(": on") != on {
            // As each pass of the engine does while a source does not work.
            if !sources.all_work() {
                sources.arm(None, None);
            }
            assert!(Instant::now() < deadline, "{:?}", sources.watching());
            thread::sleep(Duration::from_millis(20));
        }
    };
    tree.group("pods");
    until(true);
    tree.remove("pods");
    until(false);
    assert_eq!(descriptors(&path), 0, "nothing is held of what was removed");
    // Removing the cgroup causes no wake-ups afterwards.
    while woken.try_recv().is_ok() {}
    thread::sleep(Duration::from_millis(200));
    assert!(!woken.try_iter().any(|one| matches!(one, Woken::MemoryEvents { .. })));
    tree.group("pods");
    until(true);
    let mount = &tree.layout.hierarchy(Controller::Memory).unwrap().mount;
    assert!(join(mount, &path).exists());
}
