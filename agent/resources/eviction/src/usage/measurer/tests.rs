//! Shares of the time, age of figures, and what happens to directories that cannot be counted.

use std::fs;
use std::path::Path;

use nodewarden_testing::HungFuse;

use super::*;

fn directory(uid: &str, path: &Path) -> Directory {
    Directory { uid: uid.to_owned(), part: Part::PodDir, path: path.to_owned(), skip: Vec::new() }
}

fn files(dir: &Path, number: usize) {
    fs::create_dir_all(dir).unwrap();
    for n in 0..number {
        fs::write(dir.join(format!("{n}")), "").unwrap();
    }
}

const NO_TIME: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

#[test]
fn figures_are_complete_when_there_is_time() {
    let dir = tempfile::tempdir().unwrap();
    let list: Vec<_> = (0..9)
        .map(|n| {
            let path = dir.path().join(format!("{n}"));
            files(&path, n);
            directory(&format!("{n}"), &path)
        })
        .chain([directory("none", &dir.path().join("none"))])
        .collect();
    let measurer = Measurer::default();
    assert!(measurer.measure(&list, NO_TIME).iter().all(|used| *used == DiskUse::UNKNOWN));
    let found = measurer.measure(&list, LONG);
    assert!(found.iter().all(|used| used.complete), "{found:?}");
    let inodes: Vec<u64> = found.iter().map(|used| used.inodes).collect();
    assert_eq!(inodes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    assert_eq!(measurer.known(&list), found);
}

/// A large directory takes many turns, in which every small one is counted, and is complete at the end.
#[test]
fn a_large_directory_delays_no_other_and_is_finished_in_later_turns() {
    let dir = tempfile::tempdir().unwrap();
    let large = dir.path().join("large");
    for n in 0..60 {
        files(&large.join(format!("{n}")), 500);
    }
    let small: Vec<_> = (0..20)
        .map(|n| {
            let path = dir.path().join(format!("small-{n}"));
            files(&path, 3);
            directory(&format!("small-{n}"), &path)
        })
        .collect();
    let all: Vec<_> = [directory("large", &large)].into_iter().chain(small).collect();
    let (measurer, mut turns, mut least) = (Measurer::default(), 0, 0);
    loop {
        let found = measurer.measure(&all, Duration::from_millis(10));
        turns += 1;
        assert!(found[0].inodes >= least, "it never starts over");
        least = found[0].inodes;
        if found[0].complete {
            break;
        }
        if turns > 20 {
            assert!(found[1..].iter().all(|used| used.complete), "{found:?}");
        }
        assert!(turns < 10_000);
    }
    assert_eq!(least, 1 + 60 + 60 * 500);
    println!("{turns} turns");
    assert!(turns > 1);
}

#[test]
fn a_figure_is_used_until_it_is_old_or_the_disk_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    files(dir.path(), 2);
    let one = [directory("one", dir.path())];
    let measurer = Measurer::default();
    assert_eq!(measurer.measure(&one, LONG)[0].inodes, 3);
    files(dir.path(), 5);
    assert_eq!(measurer.measure(&one, LONG)[0].inodes, 3, "counted a moment ago");
    measurer.expire();
    assert!(!measurer.known(&one)[0].complete);
    assert_eq!(measurer.measure(&one, LONG)[0].inodes, 6);
    files(dir.path(), 7);
    thread::sleep(2 * FRESH);
    assert_eq!(measurer.known(&one)[0].inodes, 6, "still good enough");
    assert_eq!(measurer.measure(&one, LONG)[0].inodes, 8);
}

#[test]
fn what_a_newer_walk_has_found_counts_before_it_has_finished() {
    let used = |inodes, complete| DiskUse { inodes, complete, ..DiskUse::default() };
    assert_eq!(used(5, true).at_least(used(3, false)), used(5, true));
    assert_eq!(used(5, true).at_least(used(6, false)), used(6, false));
    assert_eq!(used(5, false).at_least(used(5, false)), used(5, false));
}

#[test]
fn pods_that_are_gone_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let measurer = Measurer::default();
    let both = ["a", "b"].map(|uid| directory(uid, dir.path()));
    measurer.measure(&both, LONG);
    measurer.retain(&BTreeSet::from(["a"]));
    let found = measurer.known(&both);
    assert_eq!([found[0].complete, found[1].complete], [true, false]);
}

/// Otherwise a layer would count as one that cannot be counted, and another pod be evicted, after one early
/// time-out and a later one.
#[test]
fn a_layer_is_given_up_only_after_a_runtime_that_answers_had_no_figure_of_it_for_a_while() {
    let (unknown, figure, silent) = ((false, true), (true, true), (false, false));
    for (what, steps) in [
        ("the runtime never has one", &[(0, unknown, false), (29, unknown, false), (30, unknown, true)][..]),
        ("a figure comes in between", &[(0, unknown, false), (20, figure, false), (40, unknown, false)]),
        ("after that one it has none", &[(0, figure, false), (9, unknown, false), (39, unknown, true)]),
        ("it was given up and has one", &[(0, unknown, false), (30, unknown, true), (31, figure, false)]),
        ("the runtime is silent", &[(0, silent, false), (30, silent, false), (99, silent, false)]),
        ("and answers then", &[(0, silent, false), (40, unknown, false), (69, unknown, false)]),
        ("it is silent in between", &[(0, unknown, false), (20, silent, false), (40, unknown, false)]),
        (
            "a walk counts it meanwhile",
            &[(0, unknown, false), (20, (true, false), false), (40, unknown, false)],
        ),
    ] {
        let (measurer, start) = (Measurer::default(), Instant::now());
        for (second, (known, answers), expected) in steps {
            let now = start + Duration::from_secs(*second);
            assert_eq!(
                measurer.is_given_up("u", "c", *known, *answers, now),
                *expected,
                "{what}: {second} s"
            );
        }
    }
}

/// A directory of which something can never be counted is no obstacle for ever, and never counts as a whole.
#[test]
fn what_cannot_be_counted_completely_several_times_stays_a_lower_bound() {
    let mut slot = Slot::default();
    let found = DiskUse { inodes: 4, complete: false, ..DiskUse::default() };
    let state = |slot: &Slot| {
        let used = slot.used(Instant::now());
        (used.inodes, used.complete, used.uncountable)
    };
    for n in 1..=9 {
        assert!(slot.finish(found, Instant::now()));
        assert_eq!(state(&slot), (4, false, n >= PARTIAL_ENDS), "{n}");
    }
    slot.finish(DiskUse { complete: true, ..found }, Instant::now());
    assert_eq!(state(&slot), (4, true, false), "a walk reached the end");
    slot.finish(found, Instant::now());
    assert_eq!(state(&slot), (4, false, false), "counted from the last complete one");
}

#[test]
fn a_sum_is_settled_when_each_part_is() {
    let part = |complete, uncountable| DiskUse { bytes: 1, complete, uncountable, ..DiskUse::default() };
    let (whole, open, partly) = (part(true, false), part(false, false), part(false, true));
    for (parts, complete, settled) in [
        ([whole, whole], true, true),
        ([whole, partly], false, true),
        ([partly, partly], false, true),
        ([partly, open], false, false),
        ([open, partly], false, false),
        ([whole, open], false, false),
    ] {
        let mut sum = DiskUse::default();
        parts.into_iter().for_each(|part| sum.add(part));
        assert_eq!((sum.complete, sum.is_settled()), (complete, settled), "{parts:?}");
    }
    let more = |found: DiskUse| DiskUse { bytes: 2, ..found };
    assert!(partly.at_least(open).uncountable, "a newer walk has found no more yet");
    assert!(!partly.at_least(more(open)).is_settled(), "it has found more");
    assert!(open.at_least(more(partly)).uncountable);
    assert!(whole.at_least(partly).complete);
}

#[test]
fn a_hung_file_system_mounted_over_a_volume_or_a_file_holds_no_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let (volume, other) = (dir.path().join("volume"), dir.path().join("other"));
    files(&volume, 0);
    files(&other, 3);
    let (Ok(_over_volume), Ok(_over_file)) =
        (HungFuse::mount(&volume), HungFuse::mount_file(&other.join("1")))
    else {
        nodewarden_testing::skip("no FUSE file system can be mounted here");
        return;
    };
    let (sender, done) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let over = Directory { part: Part::Volume("v".into()), ..directory("a", &volume) };
        let used = Measurer::default().measure(&[over, directory("b", &other)], Duration::from_secs(1));
        sender.send(used).unwrap();
    });
    let used =
        done.recv_timeout(Duration::from_secs(20)).expect("measuring does not wait for the file systems");
    assert!(!used[0].complete, "{used:?}");
    assert_eq!((used[1].inodes, used[1].complete), (3, true), "the directory and two files: {used:?}");
}
