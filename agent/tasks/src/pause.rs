//! Pauses of periodic tasks, which end together: a CPU that sleeps is woken once for all of them.
//!
//! tokio keeps its timers in a wheel of levels: 64 slots of a millisecond, 64 of 64 ms, 64 of 4,096 ms, and
//! so on. A timer of ten seconds moves down level by level, and each move wakes the runtime. One that is due
//! at a multiple of 4,096 ms since the runtime was built has no level to move down to. Pauses of twice that
//! and more end at multiples of 8,192 ms, so that all of ten seconds end together.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The length of a slot of the wheel's third level.
const SLOT: Duration = Duration::from_millis(4096);

/// That of a slot of the second one.
const SHORT_SLOT: Duration = Duration::from_millis(64);

static BEGUN: OnceLock<Instant> = OnceLock::new();

/// To be called right before the runtime is built, whose wheel turns from then on: less than a millisecond,
/// the wheel's unit, before. Until then pauses are as long as asked for.
pub fn begin() {
    let _first = BEGUN.set(Instant::now());
}

/// Waits for about `period`: not longer, and at most 8.2 s less; at most 4.1 s if it is shorter than that.
/// Periods up to 4.1 s are kept.
pub async fn pause(period: Duration) {
    tokio::time::sleep_until(together(now() + period).into()).await;
}

/// A time at which others end their pauses: `until` or at most 8.2 s before it, and not before now.
fn together(until: Instant) -> Instant {
    BEGUN.get().map_or(until, |begun| end(*begun, now(), until))
}

/// As the runtime's timers count it, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The end of the current period of a task that has something to do in each `period`: tasks with the same one
/// end their pauses together. Periods of 8.2 s and more are shortened to a multiple of that, those of 4.1 s
/// and more to that, and the first may be much shorter. Before [`begin`], `period` from now.
pub fn every(period: Duration) -> Instant {
    let now = now();
    BEGUN.get().map_or(now + period, |begun| end_of_period(*begun, now, period))
}

/// The end of a short pause of at least `least`, and at most 64 ms more, for which the wheel wakes the
/// runtime once: a multiple of a slot of its second level. Before [`begin`], `least` from now.
pub fn shortly(least: Duration) -> Instant {
    let until = now() + least;
    BEGUN.get().map_or(until, |begun| end_of_short(*begun, until))
}

/// The first multiple of [`SHORT_SLOT`] since `begun` that is not before `until`.
fn end_of_short(begun: Instant, until: Instant) -> Instant {
    let since = until.saturating_duration_since(begun).as_nanos();
    let past = u64::try_from(since % SHORT_SLOT.as_nanos()).unwrap_or_default();
    if past == 0 { until } else { until + (SHORT_SLOT - Duration::from_nanos(past)) }
}

/// The first multiple since `begun`, after `now`, of `period` as [`every`] shortens it.
fn end_of_period(begun: Instant, now: Instant, period: Duration) -> Instant {
    let shortened = [SLOT * 2, SLOT].into_iter().find(|slot| period >= *slot).map_or(period, |slot| {
        let slots = period.as_nanos() / slot.as_nanos();
        slot.saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX))
    });
    let since = now.saturating_duration_since(begun).as_nanos();
    let past = u64::try_from(since % shortened.as_nanos().max(1)).unwrap_or_default();
    now + shortened.saturating_sub(Duration::from_nanos(past))
}

/// The last multiple of two slots since `begun` that is not after `until`, if it is after `now`; else that of
/// one slot; else `until`.
fn end(begun: Instant, now: Instant, until: Instant) -> Instant {
    let since = until.saturating_duration_since(begun).as_nanos();
    let multiple = |slots: u32| {
        let past = u64::try_from(since % (SLOT * slots).as_nanos()).unwrap_or_default();
        until.checked_sub(Duration::from_nanos(past)).filter(|multiple| *multiple > now)
    };
    let long = until.saturating_duration_since(now) >= SLOT * 2;
    long.then(|| multiple(2)).flatten().or_else(|| multiple(1)).unwrap_or(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_together() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        for (now, period, expected) in [
            (0, 10_000, 8192),
            (1, 10_000, 8192),
            (6383, 10_000, 8192),
            (6384, 10_000, 16_384),
            (8192, 10_000, 16_384),
            (8193, 20_000, 24_576),
            (8192, 60_000, 65_536),
            (8192, 8192, 16_384),
            (8192, 8191, 12_288),
            (4095, 4096, 4096),
            (4096, 4096, 8192),
            // No multiple is in between.
            (5000, 1000, 6000),
            (4097, 4000, 8097),
        ] {
            let until = at(now + period);
            assert_eq!(end(begun, at(now), until), at(expected), "{now} {period}");
        }
        // Of another runtime, as in tests.
        assert_eq!(end(at(9000), at(0), at(5000)), at(5000));
    }

    #[test]
    fn periods_end_together() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        for (now, period, expected) in [
            (0, 60_000, 57_344),
            (1, 60_000, 57_344),
            (57_343, 60_000, 57_344),
            (57_344, 60_000, 114_688),
            (100_000, 60_000, 114_688),
            (9000, 10_000, 16_384),
            (5000, 5000, 8192),
            (8192, 8191, 12_288),
            (5000, 2000, 6000),
        ] {
            let period = Duration::from_millis(period);
            assert_eq!(end_of_period(begun, at(now), period), at(expected), "{now} {period:?}");
        }
        assert_eq!(end_of_period(begun, at(5), Duration::ZERO), at(5));
    }

    #[test]
    fn a_short_pause_ends_with_a_slot_and_is_never_too_short() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        for (until, expected) in [(0, 0), (1, 64), (64, 64), (65, 128), (4096 + 67, 4096 + 128)] {
            assert_eq!(end_of_short(begun, at(until)), at(expected), "{until}");
        }
        // Of another runtime, as in tests.
        assert_eq!(end_of_short(at(9000), at(70)), at(70));
    }

    /// What tokio's wheel does, which its documents do not promise: a multiple of a slot wakes once.
    #[test]
    fn one_wake_up_ends_many_pauses() {
        begin();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begun = *BEGUN.get().unwrap();
        let parks = || runtime.metrics().worker_park_count(0);
        let (before, took) = runtime.block_on(async {
            let before = parks();
            let three = [4200, 5000, 8000].map(|millis| tokio::spawn(pause(Duration::from_millis(millis))));
            for one in three {
                one.await.unwrap();
            }
            (before, begun.elapsed())
        });
        assert!((SLOT..SLOT + Duration::from_secs(2)).contains(&took), "{took:?}");
        assert!(parks() - before <= 3, "{} times asleep", parks() - before);
    }
}
