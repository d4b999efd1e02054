//! Kernel time to wall-clock time.

use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// Converts `bpf_ktime_get_ns()` (CLOCK_MONOTONIC) to wall-clock time by the present difference of the two
/// clocks. It is read for each conversion, so that a step of the wall clock is taken into account.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

/// A moment by the wall clock, which is shown, and by CLOCK_MONOTONIC, by which moments are compared: the
/// wall clock may be set in between.
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
        together(Self::now_ns, Timestamp::now)
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
        let Moment { wall, monotonic_ns } = Self::now();
        let age = i64::try_from(monotonic_ns).unwrap_or(i64::MAX) - i64::try_from(ns).unwrap_or(i64::MAX);
        wall.checked_sub(jiff::SignedDuration::from_nanos(age)).unwrap_or(wall)
    }
}

/// Readings of both clocks that are at most so far apart are good enough, in nanoseconds.
const TOGETHER_NS: u64 = 20_000;
/// How often both are read to find such.
const TRIES: usize = 8;

/// Both clocks at the same moment: the wall clock is read between two readings of the other. The thread may
/// lose its CPU between two of them, for tens of milliseconds on a busy machine, so that the closest readings
/// of several count.
fn together(mut monotonic_ns: impl FnMut() -> u64, mut wall: impl FnMut() -> Timestamp) -> Moment {
    let mut read = || {
        let (before, wall, after) = (monotonic_ns(), wall(), monotonic_ns());
        let apart = after.saturating_sub(before);
        (apart, Moment { wall, monotonic_ns: before + apart / 2 })
    };
    let mut best = read();
    for _ in 1..TRIES {
        if best.0 <= TOGETHER_NS {
            break;
        }
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that loses its CPU after its first reading of each clock, for so many nanoseconds.
    fn interrupted(pauses: &[u64]) -> Moment {
        // The wall clock is 1 s ahead of the other.
        let now = std::cell::Cell::new(1_000_000_u64);
        let mut pauses = pauses.iter().copied();
        let mut is_first = true;
        together(
            || {
                let read = now.get();
                let pause = if is_first { pauses.next().unwrap_or(0) } else { 0 };
                is_first = !is_first;
                now.set(read + 100 + pause);
                read
            },
            || {
                now.set(now.get() + 100);
                Timestamp::from_nanosecond(i128::from(now.get()) + 1_000_000_000).unwrap()
            },
        )
    }

    #[test]
    fn a_pause_between_the_clocks_does_not_move_the_time() {
        let error = |moment: Moment| {
            let ahead = moment.wall.as_nanosecond() - i128::from(moment.monotonic_ns) - 1_000_000_000;
            ahead.unsigned_abs()
        };
        assert!(error(interrupted(&[])) < 200);
        assert!(error(interrupted(&[30_000_000])) < 200, "once");
        assert!(error(interrupted(&[30_000_000, 5_000_000, 80_000])) < 200, "three times");
        let always =
            [50_000_000, 400_000, 60_000_000, 50_000_000, 50_000_000, 50_000_000, 50_000_000, 50_000_000];
        assert!(error(interrupted(&always)) <= 200_200, "the closest readings count");
    }

    #[test]
    fn a_moment_is_converted_back() {
        let now = MonotonicClock::now();
        let again = MonotonicClock::wall(now.monotonic_ns);
        assert!(
            again.duration_since(now.wall).abs() < jiff::SignedDuration::from_millis(5),
            "{again} {now:?}"
        );
    }
}
