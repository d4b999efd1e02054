//! The wall clock may be set, forwards and back, by any amount. What waits for a time to pass must not: the
//! times that it keeps are moved along with the clock.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Differences below this are no step: the wall clock runs a little faster or slower while it is corrected.
const STEP: SignedDuration = SignedDuration::from_secs(1);

/// One moment by the wall clock and by the clock that runs from the machine's start, also while it is
/// suspended. Kept beside times of the wall clock, it shows later by how much that clock was set since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockReading {
    /// The wall clock.
    pub wall: Timestamp,
    /// Which run of the machine: `/proc/sys/kernel/random/boot_id`. Shared by all readings of it.
    pub boot_id: Arc<str>,
    /// CLOCK_BOOTTIME in nanoseconds.
    pub boot_ns: u64,
}

impl ClockReading {
    /// By how much the wall clock was set between this reading and a later one; zero if it was not, and where
    /// that cannot be known because the machine was started again.
    pub fn step_to(&self, now: &Self) -> SignedDuration {
        if self.boot_id != now.boot_id {
            return SignedDuration::ZERO;
        }
        let passed = i128::from(now.boot_ns) - i128::from(self.boot_ns);
        let passed = i64::try_from(passed).map_or(SignedDuration::MAX, SignedDuration::from_nanos);
        let shown = now.wall.duration_since(self.wall);
        let step = shown.saturating_sub(passed);
        if step.abs() < STEP { SignedDuration::ZERO } else { step }
    }

    /// Times that were kept with the reading `kept`, moved to what the wall clock would have shown then if it
    /// had been right already: calls `shift` for each of them if the clock was set since. `kept` becomes this
    /// reading where there was none or the clock was set.
    pub fn align(&self, kept: &mut Option<Self>, shift: impl FnOnce(Shift)) {
        let step = kept.as_ref().map(|kept| kept.step_to(self));
        if let Some(step) = step.filter(|step| !step.is_zero()) {
            shift(Shift(step));
        }
        let is_current = step == Some(SignedDuration::ZERO)
            && kept.as_ref().is_some_and(|kept| kept.boot_id == self.boot_id);
        if !is_current {
            *kept = Some(self.clone());
        }
    }
}

/// Moves times along with the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift(SignedDuration);

impl Shift {
    /// Moves one time.
    pub fn apply(self, time: &mut Timestamp) {
        let end = if self.0.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        *time = time.checked_add(self.0).unwrap_or(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn reading(wall: i64, boot_id: &str, boot_seconds: u64) -> ClockReading {
        let wall = Timestamp::from_second(wall).unwrap();
        ClockReading { wall, boot_id: boot_id.into(), boot_ns: boot_seconds * 1_000_000_000 }
    }

    #[test]
    fn a_step_is_what_the_wall_clock_shows_more_or_less_than_has_passed() {
        let kept = reading(1_000_000, "a", 100);
        for (wall, boot_id, boot, step) in [
            (1_000_060, "a", 160, 0),
            (1_000_060 + DAY, "a", 160, DAY),
            (1_000_060 - DAY, "a", 160, -DAY),
            (1_000_000, "a", 100 + 7 * DAY as u64, -7 * DAY),
            // Another run of the machine: nothing is known.
            (1_000_060 + DAY, "b", 5, 0),
        ] {
            let now = reading(wall, boot_id, boot);
            assert_eq!(kept.step_to(&now), SignedDuration::from_secs(step), "{now:?}");
        }
        // A clock that is slowed down or sped up is not set.
        let mut slewed = reading(1_000_060, "a", 160);
        slewed.boot_ns += 999_000_000;
        assert!(kept.step_to(&slewed).is_zero());
    }

    #[test]
    fn times_move_along_once() {
        let mut since = Timestamp::from_second(1_000_000).unwrap();
        let mut kept = None;
        let mut at = |wall, boot| {
            reading(wall, "a", boot).align(&mut kept, |shift| shift.apply(&mut since));
            since.as_second()
        };
        assert_eq!(at(1_000_010, 110), 1_000_000, "kept without a reading: as it is");
        assert_eq!(at(1_000_020 + DAY, 120), 1_000_000 + DAY);
        assert_eq!(at(1_000_030 + DAY, 130), 1_000_000 + DAY);
        assert_eq!(at(1_000_040 - DAY, 140), 1_000_000 - DAY);
    }

    #[test]
    fn after_a_start_of_the_machine_times_stay() {
        let mut since = Timestamp::from_second(1_000_000).unwrap();
        let mut kept = Some(reading(1_000_000, "a", 100));
        reading(1_000_500 + DAY, "b", 3).align(&mut kept, |shift| shift.apply(&mut since));
        assert_eq!(since.as_second(), 1_000_000);
        assert_eq!(&*kept.unwrap().boot_id, "b", "what is set from now on is seen");
    }

    #[test]
    fn no_step_leaves_the_range_of_times() {
        let mut time = Timestamp::MAX;
        Shift(SignedDuration::from_secs(DAY)).apply(&mut time);
        assert_eq!(time, Timestamp::MAX);
        let mut time = Timestamp::MIN;
        Shift(SignedDuration::from_secs(-DAY)).apply(&mut time);
        assert_eq!(time, Timestamp::MIN);
    }
}
