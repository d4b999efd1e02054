//! How far a level's memory is held back: pure.
//!
//! Where less than a line is left, the level gets as `memory.high` what it uses less what lacks to the line. Beyond
//! that the kernel reclaims from it and slows what allocates, and kills nothing (cgroup-v2.rst, memory.high). What it
//! uses and what is left add up to the same whatever the level does, so that the target follows the rest of the machine
//! alone: no oscillation by itself. BestEffort's line lies further from the threshold of eviction than Burstable's, whose
//! `memory.high` is never below its requests (that is seen to where it is written).

use std::time::Duration;

use super::hold::Hold;

/// Changes of less than this part of the distance are none.
const BAND: u64 = 8;
/// Released when more than the line and this part of the distance is left.
const RELEASE: u64 = 2;

/// One reading, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Of a clock that never goes back.
    pub at: Duration,
    /// `memory.available` as the kubelet computes it.
    pub available: u64,
    /// The level's working set.
    pub used: u64,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// To so many bytes, which is less than before or the first.
    Squeezed(u64),
    /// To so many bytes, which is more than before; none: wholly.
    Released(Option<u64>),
}

/// The controller of one level.
#[derive(Debug, Clone)]
pub struct Level {
    /// Bytes that should be left.
    line: u64,
    distance: u64,
    /// Never less.
    least: u64,
    hold: Hold,
    high: Option<u64>,
    calm: Option<Duration>,
}

/// Lines of BestEffort and Burstable for a threshold of eviction, in bytes.
pub fn lines(threshold: u64, distance: u64) -> [u64; 2] {
    [distance, distance / 2].map(|above| threshold.saturating_add(above))
}

impl Level {
    pub fn new(line: u64, distance: u64, least: u64, hold: Hold) -> Self {
        Self { line, distance, least, hold, high: None, calm: None }
    }

    /// `memory.high` in force.
    pub fn high(&self) -> Option<u64> {
        self.high
    }

    /// Takes a reading in.
    pub fn turn(&mut self, seen: Seen) -> Option<Change> {
        let short = seen.available < self.line;
        let target = seen.used.saturating_add(seen.available).saturating_sub(self.line).max(self.least);
        let Some(high) = self.high else {
            if !short {
                return None;
            }
            self.hold.squeezed(seen.at);
            self.high = Some(target);
            return Some(Change::Squeezed(target));
        };
        let band = (self.distance / BAND).max(1);
        if short && target.saturating_add(band) <= high {
            (self.high, self.calm) = (Some(target), None);
            return Some(Change::Squeezed(target));
        }
        let wholly = seen.available >= self.line.saturating_add(self.distance / RELEASE);
        if !wholly && target < high.saturating_add(band) {
            self.calm = None;
            return None;
        }
        let since = *self.calm.get_or_insert(seen.at);
        let needed = if wholly { self.hold.needed() } else { self.hold.base() };
        if seen.at.saturating_sub(since) < needed {
            return None;
        }
        self.calm = None;
        self.high = (!wholly).then_some(target);
        if wholly {
            self.hold.released(seen.at);
        }
        Some(Change::Released(self.high))
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
