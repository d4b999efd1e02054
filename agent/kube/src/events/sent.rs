//! Which entry of the journal was sent last, on disk, so that the next agent sends those that this one could
//! not send while the API server was away.
//!
//! The newest position is written when nothing waits to be sent, and each second while something does: an
//! agent that is killed leaves a second of events that the next one sends again.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodewarden_storage::state_file::{Format, StateFile};
use nodewarden_storage::write_behind::WriteBehind;
use serde::{Deserialize, Serialize};

use super::pending::OLDEST;

const NAME: &str = "events.json";
const FORMAT: Format = Format::new("sent", 1).unsynced();
/// How often the position is written while events are sent.
const SAVE: Duration = Duration::from_secs(1);
/// Entries are numbered in the order in which they were appended, and may have happened so much earlier than
/// the one before.
const SLACK: Duration = Duration::from_secs(10);

/// An entry of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Its number; 0 if none was sent yet.
    pub seq: u64,
    /// When it happened, or since when entries are to be sent.
    pub time: Timestamp,
}

/// Where this agent begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    /// The last entry that an earlier agent sent.
    earlier: Position,
    /// When this agent began.
    begun: Timestamp,
}

impl Beginning {
    /// From when on entries are to be read: none that has happened too long ago to be an event.
    pub fn since(self, now: Timestamp) -> Timestamp {
        let Self { earlier: Position { seq, time }, begun } = self;
        let slack = if seq == 0 { Duration::ZERO } else { SLACK };
        let before = |time: Timestamp, by| time.checked_sub(by).unwrap_or(Timestamp::MIN);
        // The clock may have been set back.
        before(time, slack).min(begun).max(before(now, OLDEST))
    }

    /// Whether this entry is still to be sent. Numbers begin again when the journal is removed.
    pub fn wants(self, entry: Position) -> bool {
        entry.seq > self.earlier.seq || entry.time >= self.begun
    }
}

/// The last entry that was sent.
#[derive(Debug)]
pub struct Sent {
    beginning: Beginning,
    last: Position,
    saved: (Position, Instant),
    writer: WriteBehind<Position>,
}

impl Sent {
    /// Reads `events.json` of the state directory for an agent that has begun at this time. Also returns why
    /// it cannot be read, if so: then earlier entries are not sent.
    pub fn open(state_dir: &Path, begun: Timestamp) -> (Self, Option<String>) {
        let (file, earlier, problem) = StateFile::open::<Position>(state_dir.join(NAME), FORMAT);
        let consequence = "after a restart events of this time are sent again, or not at all";
        let save = move |position| file.save(&position).map(drop);
        let writer = WriteBehind::on_thread("events-sent", consequence, save);
        let last = earlier.unwrap_or(Position { seq: 0, time: begun });
        // The first agent may end before it has sent anything.
        writer.save(last);
        let beginning = Beginning { earlier: last, begun };
        (Self { beginning, last, saved: (last, Instant::now()), writer }, problem.map(|own| own.to_string()))
    }

    /// Where this agent begins.
    pub fn beginning(&self) -> Beginning {
        self.beginning
    }

    /// This entry is at the API server, or was given up. Those before it are done too.
    pub(super) fn reached(&mut self, entry: Position, now: Instant) {
        self.last = entry;
        if now.saturating_duration_since(self.saved.1) >= SAVE {
            self.save(now);
        }
    }

    /// Writes the position in the background, if it has changed.
    pub(super) fn save(&mut self, now: Instant) {
        if self.saved.0 != self.last {
            self.saved = (self.last, now);
            self.writer.save(self.last);
        }
    }
}

#[cfg(test)]
mod tests;
