//! Kernel time to wall-clock time.

use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// Converts `bpf_ktime_get_ns()` (CLOCK_MONOTONIC) to wall-clock time by the present difference of the two
/// clocks. It is read for each conversion, so that a step of the wall clock is taken into account.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

/// A moment by the wall clock, which is shown, and by CLOCK_MONOTONIC, by which moments are compared: the wall clock
/// may be set in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, as it was set when the moment was noted.
    pub wall: Timestamp,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub monotonic_ns: u64,
}

impl MonotonicClock {
    /// This moment.
    pub fn now() -> Moment {
        Moment { wall: Timestamp::now(), monotonic_ns: Self::now_ns() }
    }

    /// The moment of a time by CLOCK_MONOTONIC, in nanoseconds.
    pub fn at(monotonic_ns: u64) -> Moment {
        Moment { wall: Self::wall(monotonic_ns), monotonic_ns }
    }

    /// CLOCK_MONOTONIC now, in nanoseconds.
    pub fn now_ns() -> u64 {
        clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| Duration::from(t).as_nanos() as u64)
    }

    /// Wall-clock time of a monotonic one.
    pub fn wall(ns: u64) -> Timestamp {
        let wall = Timestamp::now();
        let age = i64::try_from(Self::now_ns()).unwrap_or(i64::MAX) - i64::try_from(ns).unwrap_or(i64::MAX);
        wall.checked_sub(jiff::SignedDuration::from_nanos(age)).unwrap_or(wall)
    }
}
