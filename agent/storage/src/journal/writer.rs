//! The thread that writes events to disk. It has its own position in the memory, as a subscriber has.

use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nodewarden_model::Event;
use nodewarden_tasks::parts::{self, Part};

use super::disk::{Disk, Lock};
use super::error::{DiskError, JournalError};
use super::packed::Packed;
use super::{Shared, sequence};

/// The time that the thread waits after the first event for more: subscribers get the CPU first, and a burst
/// becomes one write.
const GATHER: Duration = Duration::from_millis(5);
/// Time between two tries on a disk that refuses writes.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum number of lines in one write.
const BATCH: usize = 512;
/// How long a stop waits for a disk that hangs.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Owns the thread; dropping it writes the remaining events.
#[derive(Debug)]
pub struct Handle {
    thread: Thread,
    signals: Arc<Signals>,
}

#[derive(Debug, Default)]
struct Signals {
    /// Whether there are new events. Set before the thread is woken.
    news: AtomicBool,
    stop: AtomicBool,
    ended: Mutex<bool>,
    ended_changed: Condvar,
}

/// How long a write may take: events wait in memory while a disk is slow.
const LIMIT: Duration = Duration::from_secs(600);

impl Handle {
    /// Starts the thread. `lock` is held until the thread ends.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(shared: Arc<Shared>, lock: Option<Lock>) -> Result<Self, JournalError> {
        let signals = Arc::new(Signals::default());
        let writer = Writer::new(shared, lock);
        let for_thread = Arc::clone(&signals);
        let part = parts::register("journal", LIMIT);
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                let _ended = Ended(&for_thread);
                writer.run(&for_thread, &part);
                part.end();
            })
            .map_err(|source| JournalError::Thread { source })?;
        Ok(Self { thread: thread.thread().clone(), signals })
    }

    /// Makes the thread write new events. Costs a system call only if the thread sleeps.
    pub fn wake(&self) {
        if !self.signals.news.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }

    /// Makes the thread write and sync the remaining events, and waits for it at most [`STOP_WAIT`].
    pub fn stop(&self) {
        self.signals.stop.store(true, Ordering::Release);
        self.thread.unpark();
        let mut ended = self.signals.ended.lock();
        let _ = self.signals.ended_changed.wait_while_for(&mut ended, |ended| !*ended, STOP_WAIT);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reports that the thread has ended, also after a panic.
struct Ended<'a>(&'a Signals);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.ended.lock() = true;
        self.0.ended_changed.notify_all();
    }
}

struct Writer {
    shared: Arc<Shared>,
    disk: Disk,
    /// The directory's lock; `None` until the directory can be locked, which each write tries.
    lock: Option<Lock>,
    /// Number of the next event to write.
    next: u64,
    /// Events below this number were counted as write errors already.
    counted: u64,
    /// The number in `next-seq`.
    reserved: u64,
}

impl Writer {
    fn new(shared: Arc<Shared>, lock: Option<Lock>) -> Self {
        let next = shared.memory().next_seq();
        let disk = Disk::new(&shared.dir, &shared.limits);
        let mut writer = Self { shared, disk, lock, next, counted: 0, reserved: 0 };
        // Before the first event gets its number.
        if let Err(e) = writer.reserve() {
            writer.failed(&e);
        }
        writer
    }

    fn run(mut self, signals: &Signals, part: &Part) {
        loop {
            let stopping = signals.stop.load(Ordering::Acquire);
            signals.news.store(false, Ordering::Release);
            part.progress();
            let result = self.write_all();
            if let Err(e) = &result {
                self.failed(e);
            }
            if stopping {
                return self.finish();
            }
            if result.is_err() {
                self.pause(signals, RETRY);
            } else {
                part.waits();
                while !signals.news.load(Ordering::Acquire) && !signals.stop.load(Ordering::Acquire) {
                    thread::park();
                }
                self.pause(signals, GATHER);
            }
        }
    }

    /// Sleeps for the whole time, even if it is woken, unless it is to stop.
    fn pause(&self, signals: &Signals, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
            if signals.stop.load(Ordering::Acquire) {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Writes everything that memory holds and disk does not.
    fn write_all(&mut self) -> Result<(), DiskError> {
        loop {
            let found = self.shared.memory().from(self.next, BATCH);
            if found.missed > 0 {
                self.shared.lines_dropped.fetch_add(found.missed, Ordering::Relaxed);
                self.next = found.first_seq;
            }
            if found.events.is_empty() {
                return Ok(());
            }
            self.write(&found.events)?;
            self.recovered();
        }
    }

    fn write(&mut self, events: &[Packed]) -> Result<(), DiskError> {
        if self.lock.is_none() {
            self.lock = super::disk::lock(&self.shared.dir)
                .map_err(|e| DiskError::at("flock", &self.shared.dir)(io::Error::other(e)))?;
        }
        // Reserve numbers first: a number that a subscriber may have seen must not be used again, even if its
        // event was never written.
        let reserved = self.reserve();
        let lines: Vec<Vec<u8>> = events.iter().map(|e| line(&e.unpack())).collect();
        let written = self.disk.append(&lines);
        self.shared.lines_written.fetch_add(written.lines as u64, Ordering::Relaxed);
        if let Some(last) = written.lines.checked_sub(1).and_then(|i| events.get(i)) {
            self.next = last.seq + 1;
        }
        if let Some(error) = written.error {
            return Err(error);
        }
        reserved
    }

    fn reserve(&mut self) -> Result<(), DiskError> {
        let next = self.shared.memory().next_seq();
        if next + sequence::AHEAD / 2 > self.reserved {
            sequence::write(&self.shared.dir, next + sequence::AHEAD)?;
            self.reserved = next + sequence::AHEAD;
        }
        Ok(())
    }

    /// Logs the first of several failures, and counts each waiting line once.
    fn failed(&mut self, error: &DiskError) {
        let head = self.shared.memory().next_seq();
        let from = self.next.max(self.counted);
        self.shared.write_errors.fetch_add(head.saturating_sub(from), Ordering::Relaxed);
        self.counted = head.max(self.counted);
        let mut current = self.shared.disk_error();
        if current.is_none() {
            tracing::warn!("{error}; events are kept in memory and written when the disk takes them again");
        }
        *current = Some(error.to_string());
    }

    fn recovered(&mut self) {
        if self.shared.disk_error().take().is_some() {
            tracing::info!("journal: the disk takes events again");
        }
    }

    fn finish(mut self) {
        let next = self.shared.memory().next_seq();
        if let Err(e) = self.disk.sync().and_then(|()| sequence::write(&self.shared.dir, next)) {
            tracing::warn!("{e}");
        }
    }
}

/// One line of the file.
fn line(event: &Event) -> Vec<u8> {
    // Only a map with keys that are not texts could fail, and an event has none.
    let mut bytes = serde_json::to_vec(event).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
