//! Schedule of a probe: the ages of its container at which it is due. Pure.
//!
//! The first point is the end of the initial delay. The second follows after half a period to one and a half,
//! with a phase that differs between probes, so that the probes of containers started together are spread.
//! The phase is derived from names only, so a restarted agent computes the same points. (A kubelet's workers
//! begin at a random moment of a period after its restart.) Runs after the first begin up to 10 ms after
//! their point, so that those of many containers begin together.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;

use super::Target;
use nodewarden_manifest::ProbeSpec;

/// Upper bound of a container's age: 100 years, with which no sum here overflows.
const OLDEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Probes that are due within this time begin together, if it is no more than a hundredth of their period.
const TOGETHER: Duration = Duration::from_millis(10);

/// Time since a container started; zero if the start is in the future because the clock was set back.
pub fn age(now: Timestamp, started: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(started)).unwrap_or_default().min(OLDEST)
}

/// The points at which one probe of one container is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    first: Duration,
    second: Duration,
    period: Duration,
}

impl Grid {
    pub fn of(target: &Target, spec: &ProbeSpec) -> Self {
        let mut hasher = DefaultHasher::new();
        (&target.uid, &target.container, spec.kind).hash(&mut hasher);
        Self::new(spec, hasher.finish())
    }

    /// The grid of a probe; `seed` determines its phase within the period.
    pub fn new(spec: &ProbeSpec, seed: u64) -> Self {
        // Manifests cannot have a period of zero.
        let period = spec.period.max(Duration::from_millis(1));
        // 53 bits are exact in a float; the result is below 1.
        let share = (seed >> 11) as f64 / (1u64 << 53) as f64;
        Self { first: spec.initial_delay, second: spec.initial_delay + period.mul_f64(0.5 + share), period }
    }

    /// The age of the first run if probing begins at this age: the end of the initial delay if the container
    /// was never probed, else the next point.
    pub fn begin(&self, age: Duration, never_probed: bool) -> Duration {
        if never_probed { self.first.max(age) } else { self.next(age) }
    }

    /// The age of the next run after one that was due at `due` and ended at `now`. Points that passed
    /// meanwhile are skipped; after a run that was due between points, at least half a period is left.
    pub fn after(&self, due: Duration, now: Duration) -> Duration {
        self.next(now.max(due + self.period / 2))
    }

    /// When to begin what is due `at` after a moment that all probes have in common: up to 10 ms, and up to a
    /// hundredth of the period, later, together with others.
    pub fn together(&self, at: Duration) -> Duration {
        let step = TOGETHER.min(self.period / 100).as_nanos().max(1);
        let late = at.as_nanos() % step;
        if late == 0 { at } else { at + Duration::from_nanos((step - late) as u64) }
    }

    /// The first point at this age or later.
    pub fn next(&self, age: Duration) -> Duration {
        if age <= self.first {
            return self.first;
        }
        let Some(past) = age.checked_sub(self.second) else { return self.second };
        let over = past.as_nanos() % self.period.as_nanos();
        if over == 0 {
            return age;
        }
        age + self.period.saturating_sub(Duration::from_nanos(u64::try_from(over).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probes::engine::fixture::{spec, target};
    use nodewarden_manifest::{HandlerKind, ProbeKind};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn grid(delay: u64, period: u64, seed: u64) -> Grid {
        let mut spec = spec(ProbeKind::Readiness, HandlerKind::HttpGet);
        (spec.initial_delay, spec.period) = (MS(delay), MS(period));
        Grid::new(&spec, seed)
    }

    #[test]
    fn a_probe_is_due_at_its_delay_and_then_once_per_period() {
        // Seed, and the second point with a delay of 5 s and a period of 10 s.
        for (seed, second) in [(0, 10_000), (1 << 62, 12_500), (1 << 63, 15_000), (3 << 62, 17_500)] {
            let grid = grid(5_000, 10_000, seed);
            let near = |got: Duration, wanted: u64| {
                assert!(got.as_millis().abs_diff(wanted.into()) <= 1, "{got:?}, not {wanted} ms");
            };
            near(grid.next(MS(0)), 5_000);
            near(grid.next(MS(5_000)), 5_000);
            near(grid.next(MS(5_001)), second);
            near(grid.after(MS(5_000), MS(5_020)), second);
            near(grid.next(grid.second), second);
            near(grid.next(grid.second + MS(1)), second + 10_000);
            near(grid.next(MS(3_600_000)), second + ((3_600_000 - second).div_ceil(10_000)) * 10_000);
        }
    }

    #[test]
    fn the_first_run_depends_on_the_age_and_on_earlier_runs() {
        let grid = grid(5_000, 10_000, 0);
        // Age of the container, whether it was never probed, first due.
        for (age, never, due) in [
            (0, true, 5_000),
            (5_000, true, 5_000),
            (5_020, true, 5_020),
            (700_000, true, 700_000),
            (0, false, 5_000),
            (5_020, false, 10_000),
            (700_001, false, 710_000),
        ] {
            assert_eq!(grid.begin(MS(age), never), MS(due), "age {age}, never probed: {never}");
        }
    }

    #[test]
    fn missed_points_are_skipped() {
        let grid = grid(0, 1_000, 0);
        // Points: 0, 500, 1,500, 2,500, … Columns: when it was due, when its run ended, when it is due next.
        for (due, now, next) in [
            (0, 3, 500),
            (500, 510, 1_500),
            (500, 1_500, 1_500),
            (500, 1_501, 2_500),
            (500, 10_000, 10_500),
            // Between points, as after a success of the startup probe.
            (700, 710, 1_500),
            (1_100, 1_110, 2_500),
        ] {
            assert_eq!(grid.after(MS(due), MS(now)), MS(next), "due {due}, over {now}");
        }
    }

    #[test]
    fn a_start_in_the_future_counts_as_age_zero() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let ago = |seconds: i64| age(start, start - jiff::SignedDuration::from_secs(seconds));
        assert_eq!(ago(0), Duration::ZERO);
        assert_eq!(ago(90), Duration::from_secs(90));
        assert_eq!(ago(-3_600), Duration::ZERO, "a start in the future");
        assert_eq!(age(start, Timestamp::MIN), OLDEST);
        assert_eq!(age(Timestamp::MIN, Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn probes_spread() {
        let spec = spec(ProbeKind::Readiness, HandlerKind::HttpGet);
        let mut tenths = [0; 10];
        for n in 0..1_000 {
            let grid = Grid::of(&target(&format!("uid-{n}"), "c", "id"), &spec);
            let share = (grid.second - grid.first).as_secs_f64() / spec.period.as_secs_f64() - 0.5;
            tenths[(share * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|&count| (60..=140).contains(&count)), "{tenths:?}");
    }

    #[test]
    fn runs_begin_together_within_a_hundredth_of_their_period() {
        for (period, at, begun) in [
            (1_000, 0, 0),
            (1_000, 1, 10),
            (1_000, 10, 10),
            (10_000, 9_991, 10_000),
            (100, 10_000, 10_000),
            (100, 7, 7),
        ] {
            assert_eq!(grid(0, period, 0).together(MS(at)), MS(begun), "period {period}, at {at}");
        }
        assert_eq!(grid(0, 1, 0).together(Duration::from_nanos(10_001)), Duration::from_nanos(20_000));
    }

    proptest! {
        #[test]
        fn points_are_one_period_apart(delay in 0u64..100_000, period in 1u64..100_000, seed: u64, age in 0u64..10_000_000_000) {
            let grid = grid(delay, period, seed);
            let (age, period) = (MS(age), MS(period));
            let next = grid.next(age);
            prop_assert!(next >= age);
            prop_assert_eq!(grid.next(next), next, "a point is its own next");
            let between = grid.second - grid.first;
            prop_assert!(between * 2 >= period && between * 2 <= period * 3);
            let later = grid.after(next, next);
            if next > grid.first {
                prop_assert!(next - age.max(grid.first) <= period * 3 / 2);
                prop_assert_eq!(later - next, period);
            } else {
                prop_assert_eq!(later, grid.second);
            }
            // Two successive runs are due at least half a period apart.
            prop_assert!(grid.after(age, age) - age >= period / 2);
        }
    }
}
