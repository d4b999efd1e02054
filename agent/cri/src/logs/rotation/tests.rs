//! Cases of the kubelet's tests (`TestRemoveExcessLogs`, `TestCleanupUnusedLog`, `TestCompressLog`), and a
//! series of rotations.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    let (path, log) = (directory.path().join("0.log"), LogPath::new(directory.path(), "0.log"));
    let begun = Timestamp::from_second(1_790_000_000).unwrap();
    for n in 0..6 {
        fs::write(&path, line(n)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        tidy(&log, 4).unwrap();
        let moved = move_away(&log, begun + jiff::SignedDuration::from_secs(n as i64)).unwrap();
        assert_eq!(fs::read_to_string(moved.full()).unwrap(), line(n));
    }
    fs::write(&path, line(6)).unwrap();
    let found = names(directory.path());
    assert_eq!(found.len(), 4, "{found:?}");
    let compressed: Vec<_> = found.iter().filter(|name| name.ends_with(COMPRESSED)).collect();
    assert_eq!(compressed.len(), 2, "{found:?}");
    for (name, n) in compressed.iter().zip([3, 4]) {
        let (mut text, path) = (String::new(), directory.path().join(name));
        GzDecoder::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((text, fs::metadata(&path).unwrap().mode() & 0o777), (line(n), 0o640));
    }
    let mut reader = Reader::open(&log, &Request::default()).unwrap();
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Step::More {}
    let shown: String = out.iter().map(|piece| String::from_utf8_lossy(&piece.bytes)).collect();
    assert_eq!(shown, "line 5\nline 6\n", "what is not compressed is read as one");
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn no_file_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let (path, log) = (directory.path().join("0.log"), LogPath::new(directory.path(), "0.log"));
    fs::write(&path, "first").unwrap();
    let moved = move_away(&log, Timestamp::UNIX_EPOCH).unwrap();
    fs::write(&path, "second").unwrap();
    let error = move_away(&log, Timestamp::UNIX_EPOCH).unwrap_err().to_string();
    assert!(error.starts_with(&format!("rename {}: ", path.display())), "{error}");
    assert!(move_back(&moved, &log).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    fs::remove_file(&path).unwrap();
    move_back(&moved, &log).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    assert!(move_away(&LogPath::new(directory.path(), "1.log"), Timestamp::UNIX_EPOCH).is_err());
    tidy(&LogPath::new(directory.path(), "none/1.log"), 5).unwrap();
}

/// A directory of logs with one container's, and a file of root's that no pod may read.
struct Planted {
    root: tempfile::TempDir,
    secret: PathBuf,
}

impl Planted {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("logs/a_b_c/web")).unwrap();
        let secret = root.path().join("shadow");
        fs::write(&secret, line(7)).unwrap();
        Self { root, secret }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("logs/a_b_c/web")
    }

    fn log(&self) -> LogPath {
        LogPath::new(&self.root.path().join("logs/a_b_c"), "web/0.log")
    }
}

#[test]
fn a_planted_link_is_neither_compressed_nor_read() {
    let planted = Planted::new();
    let link = planted.dir().join("0.log.20200101-000000");
    std::os::unix::fs::symlink(&planted.secret, &link).unwrap();
    fs::write(planted.dir().join("0.log"), line(1)).unwrap();
    let error = tidy(&planted.log(), 5).unwrap_err().to_string();
    assert!(error.ends_with("0.log.20200101-000000: it is not a regular file"), "{error}");
    assert_eq!(names(&planted.dir()), ["0.log", "0.log.20200101-000000"], "no copy of the secret");
    let mut out = Vec::new();
    let mut reader = Reader::open(&planted.log(), &Request::default()).unwrap();
    while reader.read(&mut out).unwrap() == Step::More {}
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].bytes, b"line 1\n", "the log alone");

    // Beyond the limit the link goes, and what it leads to stays.
    tidy(&planted.log(), 2).unwrap();
    assert_eq!(names(&planted.dir()), ["0.log"]);
    assert_eq!(fs::read_to_string(&planted.secret).unwrap(), line(7));
}

#[test]
fn a_log_that_is_a_link_is_not_read() {
    let planted = Planted::new();
    std::os::unix::fs::symlink(&planted.secret, planted.dir().join("0.log")).unwrap();
    let error = Reader::open(&planted.log(), &Request::default()).unwrap_err().to_string();
    assert!(error.ends_with("0.log: it is not a regular file"), "{error}");
    assert!(crate::logs::tail(&planted.log(), 80, 2048).is_err());
    assert!(planted.log().size().is_err());
}

#[test]
fn a_fifo_does_not_hang_the_reader() {
    let planted = Planted::new();
    nix::unistd::mkfifo(&planted.dir().join("0.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    let log = planted.log();
    std::thread::spawn(move || {
        let tail = crate::logs::tail(&log, 80, 2048).map_err(|error| error.to_string());
        done.send((tail, log.size().is_err())).unwrap();
    });
    let (tail, size) = is_done.recv_timeout(std::time::Duration::from_secs(10)).expect("it hangs");
    assert!(tail.unwrap_err().ends_with("0.log: it is not a regular file"));
    assert!(size);
}

#[test]
fn directories_of_pods_and_containers_are_not_reached_through_links() {
    let planted = Planted::new();
    let elsewhere = planted.root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("0.log"), line(7)).unwrap();
    fs::remove_dir(planted.dir()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, planted.dir()).unwrap();
    let log = planted.log();
    assert!(Reader::open(&log, &Request::default()).is_err());
    assert!(tidy(&log, 5).is_err());
    assert!(move_away(&log, Timestamp::UNIX_EPOCH).is_err());
    assert!(crate::logs::runs(&planted.root.path().join("logs/a_b_c"), "web").is_err());
    assert_eq!(names(&elsewhere), ["0.log"]);
}

#[test]
fn the_directory_of_all_logs_may_be_a_link_of_the_administrator() {
    let planted = Planted::new();
    fs::write(planted.dir().join("0.log"), line(1)).unwrap();
    let link = planted.root.path().join("link");
    std::os::unix::fs::symlink(planted.root.path().join("logs"), &link).unwrap();
    let log = LogPath::new(&link.join("a_b_c"), "web/0.log");
    assert_eq!(crate::logs::tail(&log, 80, 2048).unwrap(), b"line 1\n");
    assert_eq!(log.size().unwrap(), Some(line(1).len() as u64));
}
