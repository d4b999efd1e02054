//! Pauses of periodic tasks, which end together: a CPU that sleeps is woken once for all of them.
//!
//! tokio keeps its timers in a wheel of levels: 64 slots of a millisecond, 64 of 64 ms, 64 of 4,096 ms, and
//! so on. A timer of ten seconds moves down level by level, and each move wakes the runtime. One that is due
//! at a multiple of 4,096 ms since the runtime was built has no level to move down to.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The length of a slot of the wheel's third level.
const SLOT: Duration = Duration::from_millis(4096);

static BEGUN: OnceLock<Instant> = OnceLock::new();

/// To be called right before the runtime is built, whose wheel turns from then on: less than a millisecond,
/// the wheel's unit, before. Until then pauses are as long as asked for.
pub fn begin() {
    let _first = BEGUN.set(Instant::now());
}

/// Waits for about `period`: not longer, and at most 4.1 s less. Periods up to that length are kept.
pub async fn pause(period: Duration) {
    tokio::time::sleep_until(together(Instant::now() + period).into()).await;
}

/// A time at which others end their pauses: `until` or at most 4.1 s before it, and not before now.
pub fn together(until: Instant) -> Instant {
    BEGUN.get().map_or(until, |begun| end(*begun, Instant::now(), until))
}

/// The last multiple of a slot since `begun` that is not after `until`, if it is after `now`; else `until`.
fn end(begun: Instant, now: Instant, until: Instant) -> Instant {
    let past = until.saturating_duration_since(begun).as_nanos() % SLOT.as_nanos();
    let past = Duration::from_nanos(u64::try_from(past).unwrap_or_default());
    let multiple = until.checked_sub(past).filter(|multiple| *multiple > now);
    multiple.unwrap_or(until)
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
            (2287, 10_000, 8192),
            (2288, 10_000, 12_288),
            (8192, 10_000, 16_384),
            (8193, 20_000, 24_576),
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
