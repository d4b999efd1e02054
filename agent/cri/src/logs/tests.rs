//! Tests with log files that grow and are rotated.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use super::reader::Step;
use super::*;

struct Log {
    dir: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("0.log")
    }

    fn place(&self) -> LogPath {
        LogPath::new(self.dir.path(), "0.log")
    }

    fn append(&self, path: &Path, lines: &[&str]) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        for line in lines {
            writeln!(file, "2026-11-21T04:00:00.000000000Z stdout F {line}").unwrap();
        }
    }

    fn write(&self, lines: &[&str]) {
        self.append(&self.path(), lines);
    }

    /// Rotates like the kubelet; the runtime writes to the old file until it reopens the log.
    fn rotate(&self, time: &str) -> PathBuf {
        let old = self.dir.path().join(format!("0.log.{time}"));
        fs::rename(self.path(), &old).unwrap();
        old
    }
}

fn read(reader: &mut Reader) -> String {
    let mut pieces = Vec::new();
    while reader.read(&mut pieces).unwrap() == Step::More {}
    pieces.into_iter().map(|piece| String::from_utf8(piece.bytes).unwrap()).collect()
}

fn open(log: &Log, tail: Option<u64>) -> Reader {
    Reader::open(&log.place(), &Request { tail, ..Request::default() }).unwrap()
}

#[test]
fn the_last_lines_of_all_files() {
    let log = Log::new();
    log.write(&["a", "b"]);
    log.rotate("20261121-040001");
    log.write(&["c", "d"]);
    log.rotate("20261121-040002");
    log.write(&["e"]);
    for (wanted, expected) in [
        (Some(0), ""),
        (Some(1), "e\n"),
        (Some(2), "d\ne\n"),
        (Some(4), "b\nc\nd\ne\n"),
        (Some(9), "a\nb\nc\nd\ne\n"),
        (None, "a\nb\nc\nd\ne\n"),
    ] {
        assert_eq!(read(&mut open(&log, wanted)), expected, "{wanted:?}");
    }
}

#[test]
fn what_comes_later_is_read_through_rotations() {
    let log = Log::new();
    log.write(&["a"]);
    let mut reader = open(&log, Some(0));
    assert_eq!(read(&mut reader), "");
    log.write(&["b"]);
    assert_eq!(read(&mut reader), "b\n");
    let old = log.rotate("20261121-040001");
    log.append(&old, &["c"]);
    log.write(&["d"]);
    log.rotate("20261121-040002");
    log.write(&["e"]);
    assert_eq!(read(&mut reader), "c\nd\ne\n");
    fs::write(log.path(), "").unwrap();
    assert_eq!(read(&mut reader), "");
    log.write(&["f"]);
    assert_eq!(read(&mut reader), "f\n", "truncated, as copytruncate does");
}

#[test]
fn a_line_is_shown_once_it_is_whole() {
    let log = Log::new();
    fs::write(log.path(), "2026-11-21T04:00:00Z stdout F hal").unwrap();
    let mut reader = open(&log, None);
    assert_eq!(read(&mut reader), "");
    let mut pieces = Vec::new();
    reader.finish(&mut pieces);
    assert_eq!(pieces, [Piece { stream: Stream::Stdout, bytes: b"hal\n".to_vec() }]);

    let mut reader = open(&log, None);
    assert_eq!(read(&mut reader), "");
    OpenOptions::new().append(true).open(log.path()).unwrap().write_all(b"ves\nnonsense\n").unwrap();
    assert_eq!(read(&mut reader), "halves\n");
}

#[test]
fn nothing_is_there_yet() {
    let log = Log::new();
    let mut reader = open(&log, None);
    assert!(!reader.found());
    assert_eq!(read(&mut reader), "");
    log.write(&["a"]);
    assert_eq!(read(&mut reader), "a\n");
}

#[test]
fn old_files_are_not_read_for_since() {
    let log = Log::new();
    log.write(&["a"]);
    let old = log.rotate("20261121-040001");
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().append(true).open(&old).unwrap().set_modified(hour_ago).unwrap();
    log.write(&["b"]);
    let since = jiff::Timestamp::now() - Duration::from_secs(60);
    let mut reader =
        Reader::open(&log.place(), &Request { since: Some(since), ..Request::default() }).unwrap();
    // The lines themselves are old too.
    assert_eq!(read(&mut reader), "");
}

#[test]
fn termination_messages() {
    let log = Log::new();
    assert_eq!(tail(&log.place(), 80, 2048).unwrap(), b"");
    let lines: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
    log.write(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let expected: String = lines[120..].iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(tail(&log.place(), 80, 2048).unwrap(), expected.as_bytes());
    assert_eq!(tail(&log.place(), 80, 11).unwrap(), b"8\nline 199\n");
    log.write(&["x".repeat(5000).as_str()]);
    assert_eq!(tail(&log.place(), 80, 2048).unwrap(), format!("{}\n", "x".repeat(2047)).as_bytes());
}

#[tokio::test]
async fn followed_until_the_container_ends() {
    let log = Log::new();
    log.write(&["a"]);
    let alive = Arc::new(AtomicBool::new(true));
    let (out, mut pieces) = mpsc::channel(4);
    let (path, seen) = (log.place(), alive.clone());
    let task = tokio::spawn(async move {
        let alive = move || seen.load(Ordering::Relaxed);
        send(&path, &Request::default(), Some(alive), out).await
    });
    let next = async |pieces: &mut mpsc::Receiver<Piece>| {
        let piece = tokio::time::timeout(Duration::from_secs(5), pieces.recv()).await.unwrap();
        piece.map(|piece| String::from_utf8(piece.bytes).unwrap())
    };
    assert_eq!(next(&mut pieces).await.as_deref(), Some("a\n"));
    let began = std::time::Instant::now();
    log.write(&["b"]);
    assert_eq!(next(&mut pieces).await.as_deref(), Some("b\n"));
    assert!(began.elapsed() < Duration::from_millis(500), "the kernel's notification was not received");
    log.rotate("20261121-040001");
    log.write(&["c"]);
    assert_eq!(next(&mut pieces).await.as_deref(), Some("c\n"));
    alive.store(false, Ordering::Relaxed);
    log.write(&["last"]);
    assert_eq!(next(&mut pieces).await.as_deref(), Some("last\n"));
    assert_eq!(next(&mut pieces).await, None);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn sending_ends_when_the_receiver_is_dropped() {
    let log = Log::new();
    log.write(&["a"]);
    let (out, pieces) = mpsc::channel(1);
    drop(pieces);
    let (path, request) = (log.place(), Request::default());
    let sent = send(&path, &request, Some(|| true), out);
    tokio::time::timeout(Duration::from_secs(5), sent).await.unwrap().unwrap();
}
