//! The loaded programs on the running kernel.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::{self, sleep};
use std::time::Duration;

use nodewarden_ebpf_abi::{CellReader, GroupCell, UNTRACKED, cache_entry, cache_index, slot_key};

use super::*;
use crate::cgroup::fixture::TestTree;
use crate::cgroup::{Controller, join};

/// Threads of a process.
const THREADS: usize = 200;
/// How the process of `many_threads` ends: `exit` or `killed`.
const END: &str = "NODEWARDEN_TEST_END";

/// The programs with counters for the memory controller's hierarchy; not attached yet.
fn load(tree: &TestTree) -> Option<Loaded> {
    let Some(memory) = tree.layout.hierarchy(Controller::Memory) else {
        nodewarden_testing::skip("no memory controller");
        return None;
    };
    let options = LoadOptions::plain(Spaces::new(Some(memory.id), None, None, false), 64);
    match Kernel::load(options) {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            nodewarden_testing::skip(&error);
            None
        }
    }
}

/// The kernel's id of a cgroup of the memory controller's hierarchy.
fn id(tree: &TestTree, path: &str) -> u64 {
    let hierarchy = tree.layout.hierarchy(Controller::Memory).unwrap();
    fs::metadata(join(&hierarchy.mount, path)).unwrap().ino()
}

/// Starts this very program as a process with many threads, which ends at once.
#[test]
#[ignore = "the body of a process that other tests start"]
fn many_threads() {
    let Ok(end) = env::var(END) else { return };
    for _ in 0..THREADS {
        thread::spawn(|| {
            loop {
                thread::park();
            }
        });
    }
    if end == "exit" {
        std::process::exit(3);
    }
    // SAFETY: only a signal to this process itself.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// How often the end of a process with many threads is counted, in each of some rounds: all ends, and those
/// by a signal.
fn ends(older_kernel: bool, end: &str) -> Option<Vec<(u64, u64)>> {
    let tree = TestTree::make("threads")?;
    let mut loaded = load(&tree)?;
    if older_kernel {
        loaded.kernel.layout.use_last_form("sched_process_exit");
    }
    loaded.kernel.attach();
    let this = env::current_exe().unwrap();
    let script = format!(
        "{END}={end} exec {} --ignored --exact {}",
        this.display(),
        "ebpf::load::tests::many_threads"
    );
    let round = |i: u32| {
        let group = tree.group(&format!("g{i}"));
        let slot = loaded.pool.acquire(0, id(&tree, &group)).unwrap();
        assert_ne!(slot, UNTRACKED);
        let exits = || {
            let cell: GroupCell = loaded.cells.cell(slot).unwrap();
            (cell.exits, cell.signal_exits)
        };
        let pid = tree.run(&format!("g{i}"), &script);
        for _ in 0..600 {
            if exits().0 > 0 {
                break;
            }
            sleep(Duration::from_millis(20));
        }
        // The other threads may still be on their way.
        sleep(Duration::from_millis(200));
        tree.stop(pid);
        exits()
    };
    Some((0..5).map(round).collect())
}

#[test]
fn the_end_of_a_process_with_many_threads_is_one_exit() {
    for (end, expected) in [("exit", (1, 0)), ("killed", (1, 1))] {
        let Some(counted) = ends(false, end) else { return };
        assert_eq!(counted, [expected; 5], "{end}");
    }
}

#[test]
fn the_end_of_a_process_with_many_threads_is_one_exit_where_the_tracepoint_does_not_name_the_last_thread() {
    for (end, expected) in [("exit", (1, 0)), ("killed", (1, 1))] {
        let Some(counted) = ends(true, end) else { return };
        assert_eq!(counted, [expected; 5], "{end}");
    }
}

#[test]
fn a_forgotten_cgroup_is_in_the_cache_no_more() {
    let Some(tree) = TestTree::make("forgotten") else { return };
    let Some(mut loaded) = load(&tree) else { return };
    let pool = &mut loaded.pool;
    let id = 1 << 40;
    let key = slot_key(0, id);
    // Another cgroup with the same place in the cache.
    let other = (id + 1..).map(|id| slot_key(0, id)).find(|k| cache_index(*k) == cache_index(key)).unwrap();
    let slot = pool.acquire(0, id).unwrap();
    assert_eq!(pool.acquire(0, id).unwrap(), slot);

    // A program had read the table before the removal and fills the cache after it.
    pool.set_cached(key, cache_entry(key, slot));
    pool.forget(0, id);
    assert_eq!(pool.cached(key), 0);
    pool.give_back(0, slot).unwrap();

    pool.set_cached(key, cache_entry(other, slot));
    pool.forget(0, id);
    assert_eq!(pool.cached(key), cache_entry(other, slot), "the entry of another cgroup stays");
}
