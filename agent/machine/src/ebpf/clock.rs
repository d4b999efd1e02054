//! Kernel time to wall-clock time.

use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// Converts `bpf_ktime_get_ns()` (CLOCK_MONOTONIC) to wall-clock time by the present difference of the two
/// clocks. It is read for each conversion, so that a step of the wall clock is taken into account.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl MonotonicClock {
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
