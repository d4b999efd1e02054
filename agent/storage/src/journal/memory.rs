//! The newest events in memory, bounded in number and in bytes; the oldest are dropped first.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use nodewarden_model::Event;

use super::Limits;
use super::packed::{Packed, Parts};

/// The newest events, packed.
#[derive(Debug)]
pub struct Memory {
    events: VecDeque<Packed>,
    parts: Parts,
    max_events: usize,
    max_bytes: usize,
    /// Number of the next event.
    next_seq: u64,
}

/// What memory has for a reader at a position.
#[derive(Debug)]
pub struct Found {
    /// Number of events between the reader's position and the first event in memory: these were dropped.
    pub missed: u64,
    /// Number of the first event in memory, or of the next one if there is none.
    pub first_seq: u64,
    /// The events from that position on.
    pub events: Vec<Packed>,
}

impl Memory {
    /// Memory without events, with these limits.
    pub fn new(limits: &Limits) -> Self {
        Self {
            events: VecDeque::new(),
            parts: Parts::default(),
            max_events: limits.memory_events.max(1),
            max_bytes: limits.memory_bytes,
            next_seq: 1,
        }
    }

    /// Numbers the event and stores it.
    pub fn push(&mut self, mut event: Event) -> Arc<Event> {
        event.seq = self.next_seq;
        self.keep(&event);
        Arc::new(event)
    }

    /// Stores an event that already has a number. Returns whether it was stored: a number that does not
    /// increase is refused.
    pub fn restore(&mut self, event: Event) -> bool {
        let newer = event.seq >= self.next_seq;
        if newer {
            self.keep(&event);
        }
        newer
    }

    /// Makes the next event's number at least `seq`.
    pub fn skip_to(&mut self, seq: u64) {
        self.next_seq = self.next_seq.max(seq);
    }

    /// [`Self::skip_to`] for a number that may be unknown.
    pub fn continue_at(mut self, seq: Option<u64>) -> Self {
        self.skip_to(seq.unwrap_or(0));
        self
    }

    fn keep(&mut self, event: &Event) {
        self.next_seq = event.seq.saturating_add(1);
        self.events.push_back(self.parts.pack(event));
        while self.events.len() > self.max_events || (self.bytes() > self.max_bytes && self.events.len() > 1)
        {
            match self.events.pop_front() {
                Some(old) => self.parts.forget(&old),
                None => break,
            }
        }
    }

    /// Number of events stored.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Estimated bytes of all events.
    pub fn bytes(&self) -> usize {
        self.parts.bytes()
    }

    /// The number that the next event gets.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Number of the oldest event here, or of the next if there is none.
    pub fn first_seq(&self) -> u64 {
        self.events.front().map_or(self.next_seq, |e| e.seq)
    }

    /// Whether memory reaches back beyond `time`. Events are not in strict order of time (each CPU reports
    /// its own), so the oldest must be some seconds older.
    pub fn older_than(&self, time: Timestamp) -> bool {
        const SLACK: SignedDuration = SignedDuration::from_secs(5);
        self.events.front().is_some_and(|e| e.time.checked_add(SLACK).is_ok_and(|t| t < time))
    }

    /// At most `most` events from number `seq` on, and how many of these were dropped.
    pub fn from(&self, seq: u64, most: usize) -> Found {
        let first_seq = self.first_seq();
        let start = self.events.partition_point(|e| e.seq < seq);
        let events = self.events.iter().skip(start).take(most).cloned().collect();
        Found { missed: first_seq.saturating_sub(seq), first_seq, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::Detail;

    fn event(cgroup: &str) -> Event {
        Event {
            seq: 0,
            time: Timestamp::UNIX_EPOCH,
            cgroup: cgroup.to_owned(),
            pod: None,
            detail: Detail::CgroupCreated {},
        }
    }

    fn memory(memory_events: usize, memory_bytes: usize) -> Memory {
        Memory::new(&Limits { memory_events, memory_bytes, ..Limits::default() })
    }

    fn seqs(found: &Found) -> Vec<u64> {
        found.events.iter().map(|e| e.seq).collect()
    }

    #[test]
    fn memory_is_bounded_in_number() {
        let mut m = memory(3, usize::MAX);
        for _ in 0..5 {
            m.push(event("/a"));
        }
        assert_eq!((m.len(), m.first_seq(), m.next_seq()), (3, 3, 6));
        let found = m.from(1, 2);
        assert_eq!((found.missed, seqs(&found)), (2, vec![3, 4]));
        let found = m.from(5, 9);
        assert_eq!((found.missed, seqs(&found)), (0, vec![5]));
        assert_eq!(seqs(&m.from(6, 9)), [0u64; 0]);
    }

    #[test]
    fn memory_is_bounded_in_bytes_except_for_the_newest_event() {
        let of = |many: usize| {
            let mut m = memory(100, usize::MAX);
            (0..many).for_each(|_| drop(m.push(event("/a"))));
            m.bytes()
        };
        let mut m = memory(100, of(2));
        for _ in 0..5 {
            m.push(event("/a"));
        }
        assert_eq!((m.len(), m.bytes()), (2, of(2)));
        m.push(event(&"x".repeat(10_000)));
        assert_eq!(m.len(), 1);
        m.push(event("/a"));
        assert_eq!((m.len(), m.bytes()), (1, of(1)));
    }

    #[test]
    fn numbers_continue_after_the_restored_events() {
        let mut m = memory(10, usize::MAX);
        assert!(m.restore(Event { seq: 7, ..event("/a") }));
        assert!(!m.restore(Event { seq: 7, ..event("/a") }), "the same number again");
        m.skip_to(20);
        m.skip_to(3);
        assert_eq!(m.push(event("/b")).seq, 20);
        assert_eq!(seqs(&m.from(0, 9)), [7, 20]);
    }
}
