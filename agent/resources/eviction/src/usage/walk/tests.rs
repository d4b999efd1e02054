//! Trees on real file systems: what counts, what does not, and that nothing a pod creates makes a walk wrong,
//! endless or large.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;

/// No tree of [`in_turns`] needs nearly so many.
const MOST_TURNS: u32 = 20_000;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn buffer() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); BUFFER]
}

fn start(top: &Path, budget: &Budget) -> Walk {
    Walk::start(top, Vec::new(), budget).unwrap().unwrap()
}

/// What is counted in one turn.
fn disk_use(top: &Path) -> DiskUse {
    let mut walk = start(top, &Budget::default());
    assert_eq!(walk.run(soon(), &mut buffer()), Progress::Finished);
    walk.used()
}

/// What is counted in turns of one look at the clock each, and how many turns that took.
fn in_turns(walk: &mut Walk) -> u32 {
    let (mut turns, mut buffer) = (1, buffer());
    while walk.run(Instant::now(), &mut buffer) == Progress::TimeOver {
        assert!(!walk.used().complete);
        turns += 1;
        assert!(turns < MOST_TURNS, "every turn starts again from the top directory: {:?}", walk.used());
    }
    turns
}

fn blocks(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().blocks() * 512
}

/// The same without the code under test.
fn expected(top: &Path) -> (u64, u64) {
    let mut sums = (blocks(top), 1);
    for entry in fs::read_dir(top).unwrap() {
        let entry = entry.unwrap();
        let below = match entry.file_type().unwrap().is_dir() {
            true => expected(&entry.path()),
            false => (blocks(&entry.path()), 1),
        };
        sums = (sums.0 + below.0, sums.1 + below.1);
    }
    sums
}

fn figures(used: DiskUse) -> (u64, u64) {
    (used.bytes, used.inodes)
}

/// A tree with directories of all sizes: `wide` files in each of `deep` levels, and as many empty
/// directories.
fn tree(top: &Path, wide: usize, deep: usize) {
    let mut at = top.to_owned();
    for level in 0..deep {
        for n in 0..wide {
            fs::write(at.join(format!("file-{n}")), vec![1; n % 3 * 5000]).unwrap();
            fs::create_dir(at.join(format!("empty-{n}-{}", "x".repeat(n % 200)))).unwrap();
        }
        at.push(format!("level-{level}"));
        fs::create_dir(&at).unwrap();
    }
}

#[test]
fn hard_links_count_once_and_links_are_not_followed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = dir.path();
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/b/f"), vec![1; 100_000]).unwrap();
    fs::hard_link(top.join("a/b/f"), top.join("g")).unwrap();
    fs::write(other.path().join("large"), vec![1; 1_000_000]).unwrap();
    symlink(other.path(), top.join("link")).unwrap();
    let bytes: u64 = ["", "a", "a/b", "a/b/f", "link"].iter().map(|name| blocks(&top.join(name))).sum();
    let used = disk_use(top);
    assert_eq!((figures(used), used.complete), ((bytes, 5), true));
    assert_eq!(used.device, Some(fs::metadata(top).unwrap().dev()));
    for none in [top.join("none"), top.join("link"), top.join("a/b/f"), PathBuf::from("relative")] {
        assert!(Walk::start(&none, Vec::new(), &Budget::default()).unwrap().is_none(), "{none:?}");
    }
}

/// The figure of a walk that was interrupted after every few files is the same as in one turn: nothing is
/// counted twice or left out, and nothing starts over.
#[test]
fn a_walk_continues_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), 60, 5);
    let expected = expected(dir.path());
    let mut walk = start(dir.path(), &Budget::default());
    let turns = in_turns(&mut walk);
    assert!(turns > 30, "{turns}");
    assert_eq!(figures(walk.used()), expected);
    assert!(walk.used().complete);
}

/// With room for hardly a name, directories are read again from where they were left.
#[test]
fn a_spent_budget_makes_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), 40, 4);
    fs::write(dir.path().join("first"), vec![1; 10_000]).unwrap();
    for n in 0..40 {
        fs::hard_link(dir.path().join("first"), dir.path().join(format!("level-0/name-{n}"))).unwrap();
    }
    let (bytes, inodes) = expected(dir.path());
    let expected = (bytes - 40 * blocks(&dir.path().join("first")), inodes - 40);
    for budget in [Budget::of(0, 0, 0), Budget::of(500, 0, 0), Budget::default()] {
        let mut walk = start(dir.path(), &budget);
        in_turns(&mut walk);
        assert_eq!(figures(walk.used()), expected);
        let mut walk = start(dir.path(), &budget);
        assert_eq!(walk.run(soon(), &mut buffer()), Progress::Finished);
        assert_eq!((figures(walk.used()), walk.used().complete), (expected, true));
    }
}

/// Everything that a walk took is given back.
#[test]
fn a_budget_is_as_before_when_walks_have_ended() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), 40, 4);
    let budget = Budget::of(1 << 20, 100, 100);
    let is_whole = || {
        let [mut names, mut linked, mut frames] =
            [&budget.names, &budget.linked, &budget.frames].map(Share::of);
        names.take(1 << 20) && linked.take(100) && frames.take(100)
    };
    assert!(is_whole());
    let mut walk = start(dir.path(), &budget);
    walk.run(Instant::now(), &mut buffer());
    walk.run(Instant::now(), &mut buffer());
    drop(walk);
    assert!(is_whole(), "after a walk that was given up");
    let mut walk = start(dir.path(), &budget);
    assert_eq!(walk.run(soon(), &mut buffer()), Progress::Finished);
    assert_eq!(walk.names.end(), 0);
    drop(walk);
    assert!(is_whole(), "after a walk that has finished");
}

#[test]
fn a_tree_deeper_than_descriptors_and_paths_allow() {
    let dir = tempfile::tempdir().unwrap();
    let mut at = openat(CWD, dir.path(), DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..6000 {
        rustix::fs::mkdirat(&at, c"d", Mode::RWXU).unwrap();
        at = openat(&at, c"d", DIRECTORY, Mode::empty()).unwrap();
    }
    let used = disk_use(dir.path());
    assert_eq!((used.inodes, used.complete), (6001, true));
    // Beyond the bound a figure says that it is not complete.
    let mut walk = start(dir.path(), &Budget::of(1000, 0, 10));
    assert_eq!(walk.run(soon(), &mut buffer()), Progress::Finished);
    assert_eq!((walk.used().inodes, walk.used().complete), (OWN_FRAMES as u64 + 11, false));
}

#[test]
fn mounts_are_not_counted() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("large"), vec![1; 1_000_000]).unwrap();
    let (bound, bound_file, tmpfs) =
        (dir.path().join("bound"), dir.path().join("file"), dir.path().join("tmpfs"));
    fs::create_dir(&bound).unwrap();
    fs::create_dir(&tmpfs).unwrap();
    fs::write(&bound_file, "").unwrap();
    let bind = |from: &Path, to: &Path| mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    if let Err(error) = bind(other.path(), &bound) {
        nodewarden_testing::skip(format_args!("bind mount: {error}"));
        return;
    }
    bind(&other.path().join("large"), &bound_file).unwrap();
    mount(Some("tmpfs"), &tmpfs, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    fs::write(tmpfs.join("f"), vec![1; 500_000]).unwrap();
    let used = disk_use(dir.path());
    for path in [&bound, &bound_file, &tmpfs] {
        umount2(path, MntFlags::MNT_DETACH).unwrap();
    }
    assert_eq!((figures(used), used.complete), ((blocks(dir.path()), 1), true));
}

#[test]
fn directories_that_are_left_out_are_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path(), 3, 4);
    let (all, out) = (expected(dir.path()), expected(&dir.path().join("level-0/level-1")));
    let skip = vec![identity(&dir.path().join("level-0/level-1")).unwrap()];
    let mut walk = Walk::start(dir.path(), skip, &Budget::default()).unwrap().unwrap();
    assert_eq!(walk.run(soon(), &mut buffer()), Progress::Finished);
    assert_eq!(figures(walk.used()), (all.0 - out.0, all.1 - out.1));
}

/// A pod moves directories while they are counted. The walk finds back, by the names from the top where `..`
/// leads elsewhere, and counts nothing outside.
#[test]
fn a_walk_finds_back_when_directories_are_moved() {
    let make = |dir: &Path| {
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        fs::create_dir(dir.join("a/other")).unwrap();
        for n in 0..100 {
            fs::write(dir.join(format!("a/b/c/{n}")), "x").unwrap();
            fs::write(dir.join(format!("a/{n}")), "x").unwrap();
        }
    };
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("large")).unwrap();
    for n in 0..500 {
        fs::write(other.path().join(format!("large/{n}")), "x").unwrap();
    }
    for (what, moves, complete) in [
        ("out of the tree", &[("a/b", "OUT/b")][..], true),
        ("within the tree", &[("a/b/c", "a/other/c")], true),
        ("the directory above too", &[("a/b", "OUT/b"), ("a", "a2")], false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        let all = expected(dir.path()).1;
        let mut walk = start(dir.path(), &Budget::default());
        // It is in `a/b/c`, and has counted what is in the others up to the directories.
        let mut buffer = buffer();
        while walk.frames.len() < 4 {
            assert_eq!(walk.run(Instant::now(), &mut buffer), Progress::TimeOver);
        }
        for (from, to) in moves {
            let to = to.strip_prefix("OUT/").map_or(dir.path().join(to), |to| other.path().join(to));
            fs::rename(dir.path().join(from), to).unwrap();
        }
        in_turns(&mut walk);
        let used = walk.used();
        assert_eq!(used.complete, complete, "{what}: {used:?}");
        // One that was moved within the tree may be counted twice, at most.
        assert!((100..=all + 101).contains(&used.inodes), "{what}: {used:?} of {all}");
        if *moves == [("a/b", "OUT/b")] {
            assert_eq!(used.inodes, all, "{what}");
        }
        let _ = fs::remove_dir_all(other.path().join("b"));
    }
}

/// A pod renames directories all the time. The walk ends all the same, and counts nothing outside.
#[test]
fn a_tree_that_is_renamed_all_the_time_is_counted_in_finite_time() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..5 {
        let top = dir.path().join(format!("{n}"));
        fs::create_dir(&top).unwrap();
        tree(&top, 5, 4);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = EndOnDrop(&stop);
        scope.spawn(|| {
            let names = |n: u32| (dir.path().join(format!("{}/level-0", n % 5)), dir.path().join("away"));
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                let (inside, away) = names(n);
                let _ = fs::rename(&inside, &away);
                let _ = fs::rename(&away, &inside);
                n += 1;
            }
        });
        let mut buffer = buffer();
        for _ in 0..10 {
            let mut walk = start(dir.path(), &Budget::default());
            let until = Instant::now() + Duration::from_secs(20);
            while walk.run(Instant::now(), &mut buffer) == Progress::TimeOver {
                assert!(Instant::now() < until, "endless: {:?}", walk.used());
            }
        }
        drop(end);
    });
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A tmpfs of the test's own, since names of many files on a disk take minutes to create. Unmounted when
/// dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount() -> Option<Self> {
        let this = Self(tempfile::tempdir().unwrap());
        let options = Some("size=1g,nr_inodes=0");
        match mount(Some("tmpfs"), this.0.path(), Some("tmpfs"), MsFlags::empty(), options) {
            Ok(()) => Some(this),
            Err(error) => {
                nodewarden_testing::skip(format_args!("tmpfs: {error}"));
                None
            }
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

/// 100,000 names of 250 bytes in one directory are 25 MB. What the walk keeps of them is bounded, whatever
/// their number, also of the directories among them, each of which has to be entered.
#[test]
fn a_large_directory_takes_little_memory() {
    const FILES: u64 = 95_000;
    const DIRECTORIES: u64 = 5_000;
    let Some(tmpfs) = Tmpfs::mount() else { return };
    let top = tmpfs.0.path();
    let long = "n".repeat(240);
    fs::write(top.join("file"), "x").unwrap();
    for n in 0..FILES {
        fs::hard_link(top.join("file"), top.join(format!("{n:010}{long}"))).unwrap();
    }
    for n in 0..DIRECTORIES {
        fs::create_dir(top.join(format!("d{n:09}{long}"))).unwrap();
    }
    let (mut most, mut buffer) = (0, buffer());
    // The end of a short turn keeps pending names few by itself.
    for turn in [1, 50].map(Duration::from_millis) {
        let mut walk = start(top, &Budget::default());
        while walk.run(Instant::now() + turn, &mut buffer) == Progress::TimeOver {
            most = most.max(walk.names.end() + walk.frames.len() * size_of::<Frame>());
        }
        assert_eq!((walk.used().inodes, walk.used().complete), (DIRECTORIES + 2, true));
        assert!(walk.counted.linked.len() <= 1);
    }
    assert!(most > 1000, "{most}");
    // A piece of a directory is read before the pending names are looked at.
    assert!(most < NAMES_AT_ONCE + 2 * BUFFER, "{most} bytes");
    // Whatever else a walk may keep: by how much a process grows that does nothing but this.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "usage::walk::tests::counts_one_tree", "--ignored", "--nocapture"])
        .env(TREE, top)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let grown = said.split_once(GREW_BY).and_then(|(_, rest)| rest.split_whitespace().next());
    let grown: u64 = grown.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{child:?}"));
    assert!(grown < 8 << 10, "it grew by {grown} KiB");
}

/// In the environment of [`counts_one_tree`].
const TREE: &str = "NODEWARDEN_TEST_TREE";
const GREW_BY: &str = "the process grew, in KiB, by ";

#[test]
#[ignore = "the process of another test"]
fn counts_one_tree() {
    let Some(top) = std::env::var_os(TREE) else { return };
    // The largest amount of memory that the process had so far.
    let most = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let (mut walk, mut buffer) = (start(Path::new(&top), &Budget::default()), buffer());
    let before = most();
    assert_eq!(walk.run(soon(), &mut buffer), Progress::Finished);
    println!("{GREW_BY}{} .", most() - before);
}

/// 80,000 small files are counted exactly, in turns of 20 ms. `NODEWARDEN_TEST_FILES=1000000` counts a
/// million.
#[test]
fn many_small_files_are_counted_exactly() {
    const FILES: u64 = 500;
    let all =
        std::env::var("NODEWARDEN_TEST_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(80_000);
    let directories: u64 = all / FILES;
    let Some(tmpfs) = Tmpfs::mount() else { return };
    let top = tmpfs.0.path();
    std::thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || {
                for n in (part..directories).step_by(4) {
                    let dir = top.join(format!("{}/{n}", n % 20));
                    fs::create_dir_all(&dir).unwrap();
                    for m in 0..FILES {
                        // On tmpfs a page each; the others are empty.
                        let content = if m == 0 { "x" } else { "" };
                        fs::write(dir.join(format!("{m}")), content).unwrap();
                    }
                }
            });
        }
    });
    let mut walk = start(top, &Budget::default());
    let (mut turns, began) = (1, Instant::now());
    while walk.run(Instant::now() + Duration::from_millis(20), &mut buffer()) == Progress::TimeOver {
        turns += 1;
    }
    println!("{} files in {turns} turns, {:?}", directories * FILES, began.elapsed());
    assert_eq!(walk.used().inodes, 1 + 20 + directories + directories * FILES);
    assert_eq!(walk.used().bytes, directories * blocks(&top.join("0/0/0")));
    assert!(walk.used().complete && turns > 1, "{turns} turns");
}
