//! The iterator on the running kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::super::load::{LoadOptions, Loaded};
use super::super::spaces::Spaces;
use super::*;
use crate::cgroup::fixture::TestTree;
use crate::cgroup::{Controller, Hierarchy, join};

/// The loaded programs and the reader of the hierarchies of both controllers.
fn load(tree: &TestTree, max_cgroups: u32) -> Option<(Loaded, GroupUsages)> {
    let (Some(memory), Some(pids)) =
        (tree.layout.hierarchy(Controller::Memory), tree.layout.hierarchy(Controller::Pids))
    else {
        nodewarden_testing::skip("no memory or no pids controller");
        return None;
    };
    let mut roots: Vec<&Path> = vec![&memory.mount, &pids.mount];
    roots.dedup();
    let options = LoadOptions::plain(Spaces::new(Some(memory.id), None, None, false), max_cgroups);
    let loaded = Kernel::load(options).map_err(|error| error.to_string());
    let loaded = loaded.and_then(|mut loaded| match loaded.kernel.group_usages(&roots) {
        Ok(usages) => Ok((loaded, usages)),
        // Only where the kernel is too old for it.
        Err(error @ UsageError::Missing(_)) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    });
    loaded.inspect_err(|why| nodewarden_testing::skip(why)).ok()
}

fn directory<'t>(tree: &'t TestTree, controller: Controller, path: &str) -> (&'t Hierarchy, PathBuf) {
    let hierarchy = tree.layout.hierarchy(controller).unwrap();
    (hierarchy, join(&hierarchy.mount, path))
}

/// What is read of a cgroup at once, and its id in the hierarchy.
fn memory(tree: &TestTree, path: &str, reading: &UsageReading) -> Option<u64> {
    let (_, directory) = directory(tree, Controller::Memory, path);
    reading.memory_bytes(fs::metadata(directory).unwrap().ino())
}

fn threads(tree: &TestTree, path: &str, reading: &UsageReading) -> Option<u64> {
    let (_, directory) = directory(tree, Controller::Pids, path);
    reading.threads(fs::metadata(directory).unwrap().ino())
}

#[test]
fn figures_are_found_by_the_ids_of_their_own_hierarchy() {
    let usage = |id, pages, threads| GroupUsage { id, pages, threads };
    let of_v2 = UsageReading::of([usage(7, 2, 1), usage(3, 0, NOT_COUNTED)], 4096);
    assert_eq!([3, 7, 8].map(|id| of_v2.memory_bytes(id)), [Some(0), Some(8192), None]);
    assert_eq!([3, 7, 8].map(|id| of_v2.threads(id)), [None, Some(1), None]);
    // The same ids in two hierarchies.
    let of_v1 = UsageReading::of([usage(7, 2, NOT_COUNTED), usage(7, NOT_COUNTED, 5)], 65_536);
    assert_eq!((of_v1.memory_bytes(7), of_v1.threads(7)), (Some(131_072), Some(5)));
    assert_eq!(UsageReading::of([usage(1, u64::MAX - 1, 0)], 4096).memory_bytes(1), Some(u64::MAX));
}

#[test]
fn the_figures_are_those_of_the_files() {
    let Some(tree) = TestTree::make("usages") else { return };
    let Some((_loaded, mut usages)) = load(&tree, 8192) else { return };
    let above = tree.group("above");
    let path = tree.group("above/below");
    let before = usages.read().unwrap();
    assert_eq!((memory(&tree, &path, &before), threads(&tree, &path, &before)), (Some(0), Some(0)));

    let pid = tree.run("above/below", "x=$(head -c 4000000 /dev/zero | tr '\\0' x); sleep 60 & wait");
    let (hierarchy, directory) = directory(&tree, Controller::Memory, &path);
    let file = match hierarchy.version {
        crate::cgroup::Version::V1 => "memory.usage_in_bytes",
        crate::cgroup::Version::V2 => "memory.current",
    };
    let of_file = || fs::read_to_string(directory.join(file)).unwrap().trim().parse::<u64>().unwrap();
    // The shell is done when both processes sleep and the file says the same twice.
    let mut last = of_file();
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let now = of_file();
        if now == last && now >= 4_000_000 {
            break;
        }
        last = now;
    }
    let reading = usages.read().unwrap();
    assert_eq!(memory(&tree, &path, &reading), Some(of_file()));
    assert_eq!(threads(&tree, &path, &reading), Some(2), "the shell and sleep");
    assert!(memory(&tree, &above, &reading) >= memory(&tree, &path, &reading), "it counts what is below");
    assert_eq!(threads(&tree, &above, &reading), Some(2));
    tree.stop(pid);
    drop(tree);
}

#[test]
fn a_removed_cgroup_is_not_there() {
    let Some(tree) = TestTree::make("usage-gone") else { return };
    let Some((_loaded, mut usages)) = load(&tree, 8192) else { return };
    let path = tree.group("gone");
    let id = fs::metadata(directory(&tree, Controller::Memory, &path).1).unwrap().ino();
    assert_eq!(usages.read().unwrap().memory_bytes(id), Some(0));
    tree.remove("gone");
    assert_eq!(usages.read().unwrap().memory_bytes(id), None);
}

#[test]
fn cgroups_beyond_the_capacity_are_left_out() {
    let Some(tree) = TestTree::make("usage-full") else { return };
    for n in 0..8 {
        tree.group(&format!("g{n}"));
    }
    let Some((_loaded, mut usages)) = load(&tree, 4) else { return };
    for _ in 0..2 {
        let reading = usages.read().unwrap();
        assert_eq!((reading.memory.len(), reading.threads.len()), (5, 5));
    }
}

#[test]
fn a_kernel_without_the_iterator_is_named() {
    let Some(tree) = TestTree::make("usage-lacks") else { return };
    let Some((mut loaded, _)) = load(&tree, 8) else { return };
    loaded.kernel.layout.no_usages = Some("bpf_iter_cgroup".to_owned());
    let error = loaded.kernel.group_usages(&[]).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "this kernel has no bpf_iter_cgroup");
}
