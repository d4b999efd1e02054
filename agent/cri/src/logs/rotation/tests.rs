//! Cases of the kubelet's tests (`TestRemoveExcessLogs`, `TestCleanupUnusedLog`, `TestCompressLog`), and a series of
//! rotations.

use std::io::Read;

use flate2::read::GzDecoder;
use proptest::prelude::*;

use super::*;
use crate::logs::{Reader, Request, Step};

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const DAY: &str = "0.log.20261121-0400";

#[test]
fn left_overs_then_the_oldest_go_and_the_rest_is_compressed() {
    let all = texts(&[
        "0.log",
        "0.log.20261121-040001",
        "0.log.20261121-040002.gz",
        "0.log.20261121-040003",
        "0.log.20261121-040003.gz",
        "0.log.20261121-040004",
        "0.log.20261121-040005",
        "0.log.20261121-040005.tmp",
        "0.log.20261121-040001.gz.tmp",
        "0.log.old",
        "0.log.gz",
        "10.log.20261121-040009",
        "1.log",
    ]);
    let of = |seconds: &[&str]| seconds.iter().map(|s| format!("{DAY}{s}")).collect::<Vec<_>>();
    let found = tidying("0.log", &all, 5);
    assert_eq!(found.remove, of(&["01.gz.tmp", "03", "05.tmp", "01", "02.gz"]));
    assert_eq!(found.compress, of(&["04", "05"]));
    let found = tidying("0.log", &all, 2);
    assert_eq!(found.remove.len(), 8, "one that is written to, one that was moved away");
    assert_eq!(found.compress, of(&[]));
    assert_eq!(tidying("2.log", &all, 5), Tidying::default());
}

proptest! {
    /// The newest files are kept, at most two fewer than the limit.
    #[test]
    fn the_newest_stay(seconds in prop::collection::btree_set(0u32..60, 0..12), gz: u64, max_files in 2u32..8) {
        let suffix = |n: u32| if gz >> n & 1 == 1 { COMPRESSED } else { "" };
        let all: Vec<String> = seconds.iter().map(|n| format!("{DAY}{n:02}{}", suffix(*n))).collect();
        let found = tidying("0.log", &all, max_files);
        let kept: Vec<&String> = all.iter().filter(|name| !found.remove.contains(name)).collect();
        prop_assert_eq!(kept.len(), all.len().min(max_files as usize - 2));
        prop_assert!(all.ends_with(&kept.iter().map(|name| (*name).clone()).collect::<Vec<_>>()));
        prop_assert!(found.compress.iter().all(|name| kept.contains(&name) && !name.ends_with(COMPRESSED)));
    }
}

fn line(n: usize) -> String {
    format!("2026-11-21T04:00:00.000000000Z stdout F line {n}\n")
}

#[test]
fn a_log_that_is_moved_away_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    let begun = Timestamp::from_second(1_790_000_000).unwrap();
    for n in 0..6 {
        fs::write(&path, line(n)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        tidy(&path, 4).unwrap();
        let moved = move_away(&path, begun + jiff::SignedDuration::from_secs(n as i64)).unwrap();
        assert_eq!(fs::read_to_string(moved).unwrap(), line(n));
    }
    fs::write(&path, line(6)).unwrap();
    let mut found = names(directory.path()).unwrap();
    found.sort();
    assert_eq!(found.len(), 4, "{found:?}");
    let compressed: Vec<_> = found.iter().filter(|name| name.ends_with(COMPRESSED)).collect();
    assert_eq!(compressed.len(), 2, "{found:?}");
    for (name, n) in compressed.iter().zip([3, 4]) {
        let (mut text, path) = (String::new(), directory.path().join(name));
        GzDecoder::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((text, fs::metadata(&path).unwrap().mode() & 0o777), (line(n), 0o640));
    }
    let mut reader = Reader::open(&path, &Request::default()).unwrap();
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Step::More {}
    let shown: String = out.iter().map(|piece| String::from_utf8_lossy(&piece.bytes)).collect();
    assert_eq!(shown, "line 5\nline 6\n", "what is not compressed is read as one");
}

#[test]
fn no_file_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    fs::write(&path, "first").unwrap();
    let moved = move_away(&path, Timestamp::UNIX_EPOCH).unwrap();
    fs::write(&path, "second").unwrap();
    let error = move_away(&path, Timestamp::UNIX_EPOCH).unwrap_err().to_string();
    assert!(error.starts_with(&format!("rename {}: ", path.display())), "{error}");
    assert!(move_back(&moved, &path).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    fs::remove_file(&path).unwrap();
    move_back(&moved, &path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    assert!(move_away(&directory.path().join("1.log"), Timestamp::UNIX_EPOCH).is_err());
    tidy(&directory.path().join("none/1.log"), 5).unwrap();
}
