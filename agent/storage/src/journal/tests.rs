//! The journal as a whole, on real files.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::SignedDuration;

use super::*;
use nodewarden_model::EventType;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn append(journal: &Journal, second: i64) -> u64 {
    journal.append(at(second), format!("/test/{second}"), None, Detail::CgroupCreated {}).seq
}

fn few(memory_events: usize) -> Limits {
    Limits { memory_events, ..Limits::default() }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn backlog(journal: &Journal, since: Option<Timestamp>) -> Vec<u64> {
    let mut subscription = journal.subscribe(since).backlog_only();
    let mut seqs = Vec::new();
    while let Some(event) = subscription.next().await {
        seqs.push(event.seq);
    }
    seqs
}

fn lines(dir: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn every_detail_survives_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let pod = PodRef { uid: "u".into(), name: "p".into(), container_id: "c".into(), ..PodRef::default() };
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    let appended: Vec<Event> = Detail::examples()
        .into_iter()
        .map(|d| (*journal.append(at(1), "/x", Some(pod.clone()), d)).clone())
        .collect();
    journal.close();
    assert_eq!(lines(dir.path()), appended);
    let types: BTreeSet<EventType> = appended.iter().map(|e| e.detail.event_type()).collect();
    assert_eq!(types.len(), EventType::ALL.len(), "a type is missing in this test");
}

#[tokio::test]
async fn a_restart_continues_with_the_next_number() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let journal = Journal::open(dir.path(), Limits::default()).unwrap();
        let held: Vec<u64> = (1..=round * 10).collect();
        assert_eq!(backlog(&journal, Some(at(0))).await, held);
        for i in 0..10 {
            assert_eq!(append(&journal, i), round * 10 + i as u64 + 1, "no gap after a clean stop");
        }
    }
}

#[tokio::test]
async fn numbers_are_not_used_twice_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    append(&journal, 1);
    until("the line", || journal.stats().lines_written == 1);
    // The state after a killed agent: the number file is ahead, and half a line is at the end.
    let files: Vec<_> =
        ["events.jsonl", "next-seq"].map(|n| (n, std::fs::read(dir.path().join(n)).unwrap())).into();
    drop(journal);
    for (name, mut bytes) in files {
        if name == "events.jsonl" {
            bytes.extend_from_slice(b"{\"seq\":2,\"time\":\"2026");
        }
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    let seq = append(&journal, 2);
    assert!(seq > 2, "{seq}");
    assert_eq!(backlog(&journal, Some(at(0))).await, [1, seq]);
    journal.close();
    assert_eq!(lines(dir.path()).iter().map(|e| e.seq).collect::<Vec<_>>(), [1, seq]);
}

#[test]
fn a_second_agent_cannot_open_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let first = Journal::open(dir.path(), Limits::default()).unwrap();
    assert!(matches!(Journal::open(dir.path(), Limits::default()), Err(JournalError::InUse { .. })));
    drop(first);
    assert!(Journal::open(dir.path(), Limits::default()).is_ok());
}

#[tokio::test]
async fn older_events_are_read_from_disk_without_gap_or_repetition() {
    let dir = tempfile::tempdir().unwrap();
    // Five in memory, and about ten lines per file.
    let limits = Limits { memory_events: 5, file_bytes: 1000, files: 20, ..Limits::default() };
    let journal = Journal::open(dir.path(), limits).unwrap();
    for second in 1..=60 {
        append(&journal, second);
        until("the line", || journal.stats().lines_written == second as u64);
    }
    assert_eq!(journal.stats().events, 5);
    let mut subscription = journal.subscribe(Some(at(11)));
    append(&journal, 61);
    append(&journal, 62);
    for expected in 11..=62 {
        assert_eq!(subscription.next().await.unwrap().seq, expected);
    }
    assert_eq!(backlog(&journal, Some(at(58))).await, [58, 59, 60, 61, 62]);
    assert_eq!(backlog(&journal, Some(at(999))).await, [0u64; 0]);
    assert_eq!(backlog(&journal, None).await, [0u64; 0]);
}

#[tokio::test]
async fn live_events_arrive_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    append(&journal, 1);
    let mut live = journal.subscribe(None);
    let mut all = journal.subscribe(Some(at(0)));
    let appender = {
        let journal = journal.clone();
        std::thread::spawn(move || (2..=2000).for_each(|s| _ = append(&journal, s)))
    };
    for expected in 1..=2000 {
        assert_eq!(all.next().await.unwrap().seq, expected);
        if expected > 1 {
            assert_eq!(live.next().await.unwrap().seq, expected);
        }
    }
    appender.join().unwrap();
    journal.close();
    assert!(live.next().await.is_none(), "a closed journal ends its subscriptions");
}

#[tokio::test]
async fn a_slow_subscriber_gets_the_number_of_events_it_missed() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), few(10)).unwrap();
    let mut slow = journal.subscribe(None);
    for second in 1..=25 {
        append(&journal, second);
    }
    let event = slow.next().await.unwrap();
    assert_eq!(event.detail, Detail::Lost { lost_type: LOST_SUBSCRIBER.into(), count: 15 });
    for expected in 16..=25 {
        assert_eq!(slow.next().await.unwrap().seq, expected);
    }
}

#[test]
fn an_unusable_directory_never_stops_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("state");
    std::fs::write(&blocked, "a file where a directory should be").unwrap();
    let journal = Journal::open(&blocked.join("journal"), Limits::default()).unwrap();
    append(&journal, 1);
    append(&journal, 2);
    until("the error", || journal.stats().write_errors == 2);
    assert!(journal.stats().disk_error.unwrap().contains("state"));
    std::fs::remove_file(&blocked).unwrap();
    until("the disk to be tried again", || journal.stats().lines_written == 2);
    assert_eq!(journal.stats().disk_error, None);
    assert_eq!(lines(&blocked.join("journal")).len(), 2);
}

/// A file system of 64 KiB of the test's own, unmounted at the end.
struct TinyMount(tempfile::TempDir);

impl TinyMount {
    fn new() -> Option<Self> {
        use nix::mount::{MsFlags, mount};
        let dir = tempfile::tempdir().unwrap();
        match mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some("size=64k")) {
            Ok(()) => Some(Self(dir)),
            Err(e) => {
                nodewarden_testing::skip(format_args!("cannot mount a tmpfs of 64 KiB here: {e}"));
                None
            }
        }
    }
}

impl Drop for TinyMount {
    fn drop(&mut self) {
        if let Err(e) = nix::mount::umount(self.0.path()) {
            eprintln!("cannot unmount {}: {e}", self.0.path().display());
        }
    }
}

#[tokio::test]
async fn lines_are_written_again_when_a_full_disk_has_room() {
    let Some(mount) = TinyMount::new() else { return };
    let dir = mount.0.path().join("journal");
    let journal = Journal::open(&dir, Limits::default()).unwrap();
    append(&journal, 1);
    until("the first line", || journal.stats().lines_written == 1);
    let filler = mount.0.path().join("filler");
    std::fs::write(&filler, vec![0u8; 40 << 10]).unwrap();
    // More than the 4 to 12 KiB left.
    for second in 2..=300 {
        append(&journal, second);
    }
    until("the disk to be full", || journal.stats().disk_error.is_some());
    let full = journal.stats();
    assert!(full.disk_error.as_ref().unwrap().contains("No space left"), "{full:?}");
    assert!(full.write_errors > 0 && full.write_errors < 300, "{full:?}");
    assert!(full.lines_written < 300);
    // Meanwhile the file ends with a whole line, and subscribers notice nothing.
    assert_eq!(lines(&dir).len() as u64, full.lines_written);
    assert_eq!(backlog(&journal, Some(at(0))).await.len(), 300);

    std::fs::remove_file(&filler).unwrap();
    until("the rest to be written", || journal.stats().lines_written == 300);
    let after = journal.stats();
    assert_eq!((after.disk_error, after.lines_dropped), (None, 0));
    assert_eq!(lines(&dir).iter().map(|e| e.seq).collect::<Vec<_>>(), (1..=300).collect::<Vec<_>>());
    journal.close();
    drop(journal);
}

#[test]
fn lines_lost_to_a_full_disk_are_counted() {
    let Some(mount) = TinyMount::new() else { return };
    let dir = mount.0.path().join("journal");
    let journal = Journal::open(&dir, few(50)).unwrap();
    append(&journal, 1);
    until("the first line", || journal.stats().lines_written == 1);
    std::fs::write(mount.0.path().join("filler"), vec![0u8; 56 << 10]).unwrap_or_default();
    for second in 2..=1000 {
        append(&journal, second);
        if second % 10 == 0 {
            std::thread::sleep(Duration::from_millis(6));
        }
    }
    std::fs::remove_file(mount.0.path().join("filler")).unwrap();
    until("all lines to be written or dropped", || {
        let s = journal.stats();
        s.lines_written + s.lines_dropped == 1000
    });
    let stats = journal.stats();
    assert!(stats.lines_dropped > 0, "{stats:?}");
    assert_eq!(lines(&dir).len() as u64, stats.lines_written);
}

#[test]
fn an_append_takes_microseconds() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    let mut times: Vec<Duration> = (0..5000)
        .map(|s| {
            let begin = Instant::now();
            append(&journal, s);
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    assert!(median < Duration::from_micros(100), "{median:?}");
}

/// The estimate that bounds the memory must not be far below the process's real use.
#[test]
fn the_real_memory_use_is_bounded() {
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { memory_events: usize::MAX, memory_bytes: 32 << 20, ..Limits::default() };
    let journal = Journal::open(dir.path(), limits).unwrap();
    let before = resident();
    let pod = PodRef {
        uid: "u".repeat(36),
        name: "n".repeat(30),
        container_id: "c".repeat(64),
        ..PodRef::default()
    };
    while journal.stats().bytes < 31 << 20 {
        for second in 0..200 {
            journal.append(at(second), "/kubepods/".repeat(10), Some(pod.clone()), Detail::CgroupRemoved {});
        }
    }
    let grown = resident().saturating_sub(before);
    println!(
        "{} events, {} bytes by estimate, {grown} by the kernel",
        journal.stats().events,
        journal.stats().bytes
    );
    // Other tests of this process allocate at the same time.
    assert!(grown < 64 << 20, "{grown}");
}

const VICTIM_DIR: &str = "NODEWARDEN_TEST_JOURNAL";

/// The process that [`killed_under_load`] kills; does nothing by itself.
#[test]
#[ignore = "run by killed_under_load"]
fn victim() {
    let Some(dir) = std::env::var_os(VICTIM_DIR) else { return };
    let limits = Limits { file_bytes: 64 << 10, ..Limits::default() };
    let journal = Journal::open(Path::new(&dir), limits).unwrap();
    for second in 0.. {
        append(&journal, second);
        if second % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// kill -9 while events are written and files are rotated: every start finds whole lines and uses new
/// numbers.
#[test]
fn killed_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..10 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "journal::tests::victim", "--ignored"])
            .env(VICTIM_DIR, dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let newest = dir.path().join("events.jsonl");
        until("lines", || newest.exists());
        std::thread::sleep(Duration::from_millis(20 + 7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let journal =
            Journal::open(dir.path(), Limits { file_bytes: 64 << 10, ..Limits::default() }).unwrap();
        let seq = append(&journal, 0);
        assert!(seq > last, "{seq} after {last}");
        assert_eq!(journal.stats().lines_skipped, 0, "only a torn last line, and that was cut off");
        last = seq;
    }
    let mut previous = 0;
    for n in (0..4).rev() {
        let Ok(text) = std::fs::read_to_string(dir.path().join(files::name(n))) else { continue };
        assert!(text.len() <= 64 << 10);
        for line in text.lines() {
            let event: Event = serde_json::from_str(line).unwrap();
            assert!(event.seq > previous, "{} after {previous}", event.seq);
            previous = event.seq;
        }
    }
    assert_eq!(previous, last);
}
