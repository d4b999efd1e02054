//! What happened and is not written yet: bounded, and nothing in it is older than events live at the API
//! server.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use super::Occurrence;
use super::sent::Position;

/// At most so many wait (client-go: `maxQueuedEvents`).
const MOST: usize = 1000;
/// How long events live at the API server by default (`--event-ttl`): what could not be written for so long
/// is of no use.
pub const OLDEST: Duration = Duration::from_secs(3600);

/// What waits, the oldest first.
#[derive(Debug, Default)]
pub struct Pending {
    waiting: VecDeque<(Occurrence, Option<Position>)>,
    dropped: u64,
}

impl Pending {
    /// Adds one, of this entry of the journal; the oldest makes room for it.
    pub fn push(&mut self, occurrence: Occurrence, entry: Option<Position>) {
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back((occurrence, entry));
    }

    /// Counts some that are lost already.
    pub fn lost(&mut self, count: u64) {
        self.dropped += count;
    }

    /// The next one to write.
    pub fn pop(&mut self, now: Timestamp) -> Option<(Occurrence, Option<Position>)> {
        while let Some(next) = self.waiting.pop_front() {
            if age(&next.0, now) <= OLDEST {
                return Some(next);
            }
            self.dropped += 1;
        }
        None
    }

    /// How many were dropped since this was last asked.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

/// How long ago it happened.
pub fn age(occurrence: &Occurrence, now: Timestamp) -> Duration {
    now.duration_since(occurrence.time).try_into().unwrap_or(Duration::ZERO)
}

/// Whether it happened too long ago to be written.
pub fn is_too_old(occurrence: &Occurrence, now: Timestamp) -> bool {
    age(occurrence, now) > OLDEST
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;
    use crate::events::{Involved, Kind};

    fn occurrence(message: String, time: Timestamp) -> Occurrence {
        Occurrence {
            involved: Involved::node("n"),
            kind: Kind::Normal,
            reason: "Starting".into(),
            message,
            time,
        }
    }

    #[test]
    fn the_newest_stay_and_what_is_too_old_is_dropped() {
        let now = Timestamp::now();
        let mut pending = Pending::default();
        for number in 0..1003 {
            let time = if number < 5 { now - 2.hours() } else { now };
            pending.push(occurrence(number.to_string(), time), None);
        }
        assert_eq!(pending.pop(now).unwrap().0.message, "5");
        assert_eq!((pending.take_dropped(), pending.take_dropped()), (5, 0));
        assert_eq!(std::iter::from_fn(|| pending.pop(now)).count(), 997);
    }
}
