//! How far a level's memory is throttled: pure.
//!
//! When less memory than `line` is available, the level's `memory.high` is set to its use less what is
//! missing to the line. Above that the kernel reclaims from the level and slows its allocations, but kills
//! nothing (cgroup-v2.rst, memory.high). The level's use and the available memory add up to the same whatever
//! the level does, so the target depends on the rest of the machine only and does not oscillate. BestEffort's
//! line is further from the eviction threshold than Burstable's, whose `memory.high` is never below its
//! requests (ensured where it is written).

use std::time::Duration;

use super::release_delay::ReleaseDelay;

/// Changes of less than 1/`BAND` of the distance are ignored.
const BAND: u64 = 8;
/// Released when more than the line and 1/`RELEASE` of the distance is available.
const RELEASE: u64 = 2;

/// One reading, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic time.
    pub at: Duration,
    /// `memory.available` as the kubelet computes it.
    pub available: u64,
    /// The level's working set.
    pub used: u64,
}

/// A change of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// To this many bytes, which is less than before or the first limit.
    Squeezed(u64),
    /// To this many bytes, which is more than before; `None`: the limit is removed.
    Released(Option<u64>),
}

/// The controller of one level.
#[derive(Debug, Clone)]
pub struct Level {
    /// Bytes that should be available.
    line: u64,
    distance: u64,
    /// Lower bound of the limit, in bytes.
    least: u64,
    hold: ReleaseDelay,
    high: Option<u64>,
    calm: Option<Duration>,
}

/// Lines of BestEffort and Burstable for a threshold of eviction, in bytes.
pub fn lines(threshold: u64, distance: u64) -> [u64; 2] {
    [distance, distance / 2].map(|above| threshold.saturating_add(above))
}

impl Level {
    pub fn new(line: u64, distance: u64, least: u64, hold: ReleaseDelay) -> Self {
        Self { line, distance, least, hold, high: None, calm: None }
    }

    /// Keeps so many bytes available from now on.
    pub fn set_line(&mut self, line: u64) {
        self.line = line;
    }

    /// `memory.high` in force.
    pub fn high(&self) -> Option<u64> {
        self.high
    }

    /// Takes a reading and returns the change of the limit, if any.
    pub fn update(&mut self, seen: Reading) -> Option<Change> {
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
mod tests;
