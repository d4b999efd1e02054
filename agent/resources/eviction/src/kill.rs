//! Kills a pod at once through its cgroup, as a hard threshold requires.
//!
//! The runtime sees the containers exit as after any SIGKILL from outside; the pod's worker then continues as
//! usual.

use std::thread;
use std::time::{Duration, Instant};

use nodewarden_machine::cgroup::control::{
    DestroyError, GroupFiles, Held, KillTarget, Killed, is_empty, kill_now,
};
use nodewarden_machine::ebpf::raise_priority;

/// Processes that are forked meanwhile are killed in further rounds, for at most this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// Most processes release their memory by themselves soonest: with a second thread at once their deaths took
/// longer in most runs of `bench eviction` (35 instead of 28 ms at p99, on average of two runs in turn).
const ALONE: Duration = Duration::from_millis(5);

/// Processes that have got SIGKILL.
#[derive(Debug, Clone, Copy)]
pub struct Signalled {
    /// Their number.
    pub processes: usize,
    /// When the last of them got it.
    pub at: Instant,
    /// Whether the process of the sandbox was left for later.
    pub has_sandbox: bool,
}

/// Sends SIGKILL to every process of the cgroup `path` and of the cgroups below it: with `cgroup.kill` where
/// v2 has it, else one by one after forbidding forks. Returns as soon as a complete list shows that all of
/// them have the signal; their memory is released on a separate thread. `target`: its files, if they were
/// opened before; the process of the sandbox that it names is left.
///
/// # Errors
/// The cgroup holds this process or process 1; processes are forked faster than they can be killed; a file of
/// the cgroup cannot be read.
pub fn kill(files: &GroupFiles, path: &str, target: Option<&KillTarget>) -> Result<Signalled, DestroyError> {
    let killed = kill_now(files, path, PATIENCE, target, release)?;
    let Killed { processes, at, has_sandbox } = killed;
    Ok(Signalled { processes, at, has_sandbox })
}

/// Has processes that are still exiting after [`ALONE`] release their memory.
fn release(exiting: Held) {
    // Without the thread they do that themselves.
    let _ = thread::Builder::new().name("release".into()).spawn(move || {
        thread::sleep(ALONE);
        // Without the priority it comes later on a busy node.
        let _ = raise_priority();
        exiting.release();
    });
}

/// Whether no process is left in the cgroup or below it. Also false when that cannot be read.
pub fn empty(files: &GroupFiles, path: &str) -> bool {
    is_empty(files, path).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_machine::cgroup::Controller;
    use nodewarden_machine::cgroup::fixture::TestTree;

    fn files(tree: &TestTree) -> GroupFiles {
        GroupFiles::new(tree.layout.clone())
    }

    /// Waits until `is` returns true, and returns how long that took.
    fn until(what: &str, mut is: impl FnMut() -> bool) -> Duration {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_micros(200));
        }
        begun.elapsed()
    }

    #[test]
    fn kills_the_cgroup_and_those_below_but_not_its_sibling() {
        let Some(tree) = TestTree::make("evict-kill") else { return };
        let path = tree.group("pod");
        tree.group("pod/a");
        tree.group("pod/b");
        tree.group("sibling");
        assert!(empty(&files(&tree), &path));
        assert_eq!(kill(&files(&tree), &path, None).unwrap().processes, 0);
        tree.run("pod/b", "sleep 60 & sleep 60");
        tree.run("pod/a", "trap '' TERM; while :; do sleep 0.1; done");
        tree.run("sibling", "sleep 60");
        thread::sleep(Duration::from_millis(200));
        assert!(!empty(&files(&tree), &path));
        let begun = Instant::now();
        let killed = kill(&files(&tree), &path, None).unwrap().processes;
        let took = begun.elapsed();
        let gone = until("gone", || empty(&files(&tree), &path));
        println!("{killed} processes signalled in {took:?}, gone after {gone:?} more");
        assert!(killed >= 4, "{killed}");
        assert!(!empty(&files(&tree), &tree.path("sibling")));
    }

    #[test]
    fn a_fork_bomb_is_killed() {
        let Some(tree) = TestTree::make("evict-forks") else { return };
        let path = tree.group("pod");
        // `wait` ends these loops when the test fails before the kill.
        tree.run("pod", "for i in 1 2 3; do (while :; do sleep 0.3 & sleep 0.001; done) & done; wait");
        thread::sleep(Duration::from_millis(300));
        let killed = kill(&files(&tree), &path, None).unwrap().processes;
        assert!(killed > 3, "{killed}");
        until("gone", || empty(&files(&tree), &path));
        thread::sleep(Duration::from_millis(100));
        assert!(empty(&files(&tree), &path), "nothing comes back");
    }

    #[test]
    fn memory_is_released_soon_even_with_the_lowest_cpu_share() {
        let Some(tree) = TestTree::make("evict-memory") else { return };
        let path = tree.group("pod");
        let least = if tree.layout.unified().is_some_and(|u| u.controllers.contains(&Controller::Cpu)) {
            ("cpu.weight", "1")
        } else {
            ("cpu.shares", "2")
        };
        tree.group("busy");
        tree.run("pod", "x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 60");
        let mut node = crate::gather::candidate_memory(&tree.layout, &path);
        until("it has its memory", || node().is_some_and(|bytes| bytes > 60_000_000));
        tree.write(Controller::Cpu, "pod", least.0, least.1);
        for _ in 0..4 {
            tree.run("busy", "while :; do :; done");
        }
        kill(&files(&tree), &path, None).unwrap();
        let back = until("its memory is back", || node().is_none_or(|bytes| bytes < 8_000_000));
        println!("60 MB are back after {back:?}");
    }
}
