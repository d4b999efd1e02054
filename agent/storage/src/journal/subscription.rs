//! A subscriber's position in the journal: first older events (from disk if memory has dropped them), then
//! new ones. It holds a number, not a queue, so a slow subscriber needs no memory and loses only what the
//! journal's memory drops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use tokio::sync::mpsc;

use nodewarden_model::{Detail, Event};

use super::{Shared, history};

/// `lost_type` of the event that reports to a subscriber how many events it missed.
pub const LOST_SUBSCRIBER: &str = "subscriber";

/// Number of events copied from memory under one lock.
const BATCH: usize = 256;

/// Yields events in order of their numbers; see [`super::Journal::subscribe`].
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    /// Number of the next event to yield.
    next: u64,
    /// First number after the events that the journal held when it was subscribed to.
    head: u64,
    /// Of those events, only the ones from this time on are yielded.
    since: Option<Timestamp>,
    /// Whether it ends at `head`.
    backlog_only: bool,
    /// Events copied from memory or read from disk, to be yielded.
    ready: VecDeque<Arc<Event>>,
    /// Older events that are being read from disk.
    reading: Option<Reading>,
}

#[derive(Debug)]
struct Reading {
    events: mpsc::Receiver<Vec<Event>>,
    /// Number after the last event that is read.
    to: u64,
}

/// What a look at the journal's memory leads to.
enum Step {
    Ready,
    /// There is nothing new.
    Wait,
    /// Memory no longer has the next event; it begins at this number.
    ReadDisk(u64),
    End,
}

impl Subscription {
    pub(super) fn new(shared: Arc<Shared>, since: Option<Timestamp>) -> Self {
        let (head, next) = {
            let memory = shared.memory();
            let next = match since {
                None => memory.next_seq(),
                // Numbers begin at 1: memory reports older ones as missed, and they are read from disk.
                Some(since) if memory.older_than(since) => memory.first_seq(),
                Some(_) => 1,
            };
            (memory.next_seq(), next)
        };
        Self { shared, next, head, since, backlog_only: false, ready: VecDeque::new(), reading: None }
    }

    /// Makes the subscription end after the events that the journal held when it was subscribed to.
    #[must_use]
    pub fn backlog_only(mut self) -> Self {
        self.backlog_only = true;
        self
    }

    /// The next event; `None` when the journal was closed, or at the end of the backlog if only that was
    /// wanted. No event is lost if the future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if let Some(reading) = &mut self.reading {
                match reading.events.recv().await {
                    Some(batch) => self.take(batch.into_iter().map(Arc::new)),
                    None => {
                        self.next = self.next.max(reading.to);
                        self.reading = None;
                    }
                }
                continue;
            }
            // Before looking at the memory, so that an append after the look is noticed.
            let shared = Arc::clone(&self.shared);
            let news = shared.news.notified();
            match self.step() {
                Step::Ready => {}
                Step::ReadDisk(to) => self.read_disk(to),
                Step::End => return None,
                Step::Wait => news.await,
            }
        }
    }

    fn step(&mut self) -> Step {
        // Before looking at the memory, so that everything appended before the close is seen.
        let closed = self.shared.closed.load(Ordering::Acquire);
        if self.backlog_only && self.next >= self.head {
            return Step::End;
        }
        let found = self.shared.memory().from(self.next, BATCH);
        if found.missed > 0 {
            if self.next < self.head {
                return Step::ReadDisk(found.first_seq);
            }
            self.ready.push_back(Arc::new(lost(found.first_seq - 1, found.missed)));
            self.next = found.first_seq;
        }
        if self.backlog_only && found.events.first().is_none_or(|e| e.seq >= self.head) {
            return Step::End;
        }
        if found.events.is_empty() && self.ready.is_empty() {
            return if closed { Step::End } else { Step::Wait };
        }
        self.take(found.events.iter().map(|event| Arc::new(event.unpack())));
        Step::Ready
    }

    /// Queues events from `next` on; those of the backlog only if they are recent enough.
    fn take(&mut self, events: impl Iterator<Item = Arc<Event>>) {
        for event in events {
            let backlog = event.seq < self.head;
            if event.seq < self.next || (self.backlog_only && !backlog) {
                continue;
            }
            self.next = event.seq + 1;
            if !backlog || self.since.is_none_or(|since| event.time >= since) {
                self.ready.push_back(event);
            }
        }
    }

    fn read_disk(&mut self, to: u64) {
        let (dir, files) = (self.shared.dir.clone(), self.shared.limits.files);
        let events = history::read(dir, files, self.next, to, self.since);
        self.reading = Some(Reading { events, to });
    }
}

/// The event that replaces those that a subscriber missed; it has the number of the last of them.
fn lost(seq: u64, count: u64) -> Event {
    Event {
        seq,
        time: Timestamp::now(),
        cgroup: String::new(),
        pod: None,
        detail: Detail::Lost { lost_type: LOST_SUBSCRIBER.to_owned(), count },
    }
}
