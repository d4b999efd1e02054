//! The journal: stores every event in memory and on disk, and sends it to subscribers.
//!
//! ```text
//! append ─► memory (bounded) ─┬► subscriptions: each has its own position in the memory
//!                             └► writer thread: has a position too, and writes the events as JSON lines
//! ```
//!
//! There is one queue: the memory, in which events are packed. A subscriber or the writer that falls so far
//! behind that the event at its position was dropped from memory misses the dropped events; a subscriber gets
//! an event that reports how many. Appending takes a lock for a push and wakes those that wait; it never
//! accesses the disk.
//!
//! On disk are `events.jsonl` (newest) and `events.1.jsonl` … , at most `files` files of at most `file_bytes`
//! each. An event is written to the kernel's page cache within some 5 ms, so a killed agent loses no more
//! than that; it is synced to the device at rotation and at close, so a power cut loses more. Lines that
//! cannot be written (disk full) wait in memory and are written when there is space again.

mod disk;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod history;
mod memory;
mod packed;
mod restore;
mod sequence;
mod shared;
mod subscription;
mod writer;

#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use tokio::sync::Notify;

use nodewarden_model::{Detail, Event, PodRef};

pub use error::JournalError;
use memory::Memory;
pub use subscription::{LOST_SUBSCRIBER, Subscription};

/// How many events the journal stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of events in memory.
    pub memory_events: usize,
    /// Maximum estimated size of the events in memory, in bytes. The limit that is reached first applies.
    pub memory_bytes: usize,
    /// Maximum size of one file in bytes.
    pub file_bytes: u64,
    /// Maximum number of files, including the one being written.
    pub files: u32,
}

impl Default for Limits {
    /// 1 MiB in memory (some 5,000 events; the agent's memory stays below 30 MB) and 64 MiB on disk.
    fn default() -> Self {
        Self { memory_events: 20_000, memory_bytes: 1 << 20, file_bytes: 16 << 20, files: 4 }
    }
}

/// What the journal holds, and its errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Number of events in memory now.
    pub events: u64,
    /// Their estimated size in bytes.
    pub bytes: u64,
    /// Number of events appended since the agent's start.
    pub appended: u64,
    /// Number of lines written to disk since the agent's start.
    pub lines_written: u64,
    /// Number of lines that could not be written at the first try (they may have been written later).
    pub write_errors: u64,
    /// Number of lines that were never written to disk, because memory had no room to keep them waiting.
    pub lines_dropped: u64,
    /// Number of lines on disk that were not events and were skipped at start.
    pub lines_skipped: u64,
    /// Why nothing can be written at present; `None` if the last write succeeded.
    pub disk_error: Option<String>,
}

/// The journal. Clones share it; when the last one is dropped, the remaining events are written and synced.
#[derive(Debug, Clone)]
pub struct Journal {
    shared: Arc<Shared>,
    writer: Arc<writer::Handle>,
}

/// What the journal, its subscriptions and its writer have in common.
#[derive(Debug)]
struct Shared {
    memory: Mutex<Memory>,
    /// Notified at every append and at close.
    news: Notify,
    closed: AtomicBool,
    appended: AtomicU64,
    lines_written: AtomicU64,
    write_errors: AtomicU64,
    lines_dropped: AtomicU64,
    lines_skipped: u64,
    disk_error: Mutex<Option<String>>,
    dir: PathBuf,
    limits: Limits,
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic while the lock is held leaves only whole events, so the lock is not poisoned.
        self.memory.lock()
    }

    fn disk_error(&self) -> MutexGuard<'_, Option<String>> {
        self.disk_error.lock()
    }
}

impl Journal {
    /// Opens the journal in `dir`: reads back the newest events, repairs a torn last line, starts the writer.
    /// A directory that cannot be used is not an error here: events are stored in memory, [`JournalStats`]
    /// has the reason, and the writer keeps trying.
    ///
    /// # Errors
    /// When another process has this journal open, or the writer thread cannot be started.
    pub fn open(dir: &Path, limits: Limits) -> Result<Self, JournalError> {
        let lock = disk::lock(dir)?;
        let restored = restore::restore(dir, &limits);
        let reserved = sequence::read(dir);
        let memory = restored.memory.continue_at(reserved);
        let shared = Arc::new(Shared {
            memory: Mutex::new(memory),
            news: Notify::new(),
            closed: AtomicBool::new(false),
            appended: AtomicU64::new(0),
            lines_written: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            lines_dropped: AtomicU64::new(0),
            lines_skipped: restored.lines_skipped,
            disk_error: Mutex::new(restored.error.map(|e| e.to_string())),
            dir: dir.to_owned(),
            limits,
        });
        let writer = writer::Handle::start(Arc::clone(&shared), lock)?;
        Ok(Self { shared, writer: Arc::new(writer) })
    }

    /// Numbers an event, stores it and wakes those that wait for one. Takes microseconds, whatever state the
    /// disk is in.
    pub fn append(
        &self,
        time: Timestamp,
        cgroup: impl Into<String>,
        pod: Option<PodRef>,
        detail: Detail,
    ) -> Arc<Event> {
        let event = Event { seq: 0, time, cgroup: cgroup.into(), pod, detail };
        let event = self.shared.memory().push(event);
        self.shared.appended.fetch_add(1, Ordering::Relaxed);
        self.shared.news.notify_waiters();
        self.writer.wake();
        event
    }

    /// Subscribes to new events. With `since`, the subscription yields first the events that the journal
    /// holds from that time on (from memory, and from disk for older ones), then new ones, with no gap and no
    /// event twice.
    pub fn subscribe(&self, since: Option<Timestamp>) -> Subscription {
        Subscription::new(Arc::clone(&self.shared), since)
    }

    /// What the journal holds now, and its errors.
    pub fn stats(&self) -> JournalStats {
        let s = &self.shared;
        let (events, bytes) = {
            let memory = s.memory();
            (memory.len() as u64, memory.bytes() as u64)
        };
        JournalStats {
            events,
            bytes,
            appended: s.appended.load(Ordering::Relaxed),
            lines_written: s.lines_written.load(Ordering::Relaxed),
            write_errors: s.write_errors.load(Ordering::Relaxed),
            lines_dropped: s.lines_dropped.load(Ordering::Relaxed),
            lines_skipped: s.lines_skipped,
            disk_error: s.disk_error().clone(),
        }
    }

    /// Ends the subscriptions once they have yielded everything, writes the remaining events and syncs them.
    /// Waits for that, but not longer than some seconds if the disk hangs. Events appended later are stored
    /// in memory only.
    pub fn close(&self) {
        self.writer.stop();
        self.shared.closed.store(true, Ordering::Release);
        self.shared.news.notify_waiters();
    }
}
