//! When something is due: a function of times alone.

use std::time::{Duration, Instant};

use nodewarden_config::ProgramStats;

/// The shortest time between two passes.
const TICK: Duration = Duration::from_secs(1);
/// The longest time between two passes; less where removed cgroups are kept for less.
const QUIET: Duration = Duration::from_secs(10);
/// How often the tree is walked even if nothing seems amiss: the kernel reports every cgroup that is made or
/// removed, and each report that is lost, after which the tree is walked at once. With 1,000 pods on cgroup
/// v1 that is 100,000 system calls.
const WALK: Duration = Duration::from_secs(30 * 60);
/// How often free memory is given back, which takes about a millisecond, while there is something to do.
const TRIM: Duration = Duration::from_secs(10);
/// How long after the end of a minute that is done, and code that ran once unmapped, which costs about a
/// thousand page faults: what is done each minute (lists of the runtime) is over, and has left free memory.
const SETTLED: Duration = Duration::from_secs(2);
/// How often sampled program statistics are measured, for one [`TICK`] each.
const MEASURE: Duration = Duration::from_secs(60);
/// How long that waits for a pass that has something else to do.
const MEASURE_LATE: Duration = QUIET;
/// When they are measured first, after the start.
const MEASURE_FIRST: Duration = Duration::from_secs(5);

/// What a pass has to do besides what each does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// Walk the tree.
    pub walk: bool,
    /// Read everything.
    pub sample: bool,
    /// Give free memory back.
    pub trim: bool,
    /// Unmap code that ran once.
    pub unmap: bool,
}

/// What is done when.
#[derive(Debug)]
pub struct Schedule {
    sample: Duration,
    quiet: Duration,
    program_stats: ProgramStats,
    passed: Instant,
    walked: Instant,
    sampled: Instant,
    trimmed: Instant,
    /// The end of the minute that the last pass was in.
    minute: Instant,
    /// When what the minute before has left is given back, if it was not yet.
    tidy: Option<Instant>,
    /// When the programs are measured next, or since when they are.
    measure: Instant,
    measuring: bool,
}

impl Schedule {
    /// At the start nothing is due. `sample` is the time between two readings of everything, `retention` how
    /// long removed cgroups are kept, `minute` as for [`Schedule::pass`]. The first reading is made after
    /// half of `sample`: other threads begin their periods of ten seconds and a minute now too, and threads
    /// that allocate or free memory at the same time wait for each other, a wake-up each time.
    pub fn new(
        sample: Duration,
        retention: Duration,
        program_stats: ProgramStats,
        minute: Instant,
        now: Instant,
    ) -> Self {
        Self {
            sample,
            quiet: QUIET.min(retention),
            program_stats,
            passed: now,
            walked: now,
            sampled: now.checked_sub(sample / 2).unwrap_or(now),
            trimmed: now,
            minute,
            tidy: None,
            measure: now + MEASURE_FIRST,
            measuring: program_stats == ProgramStats::Always,
        }
    }

    /// How long to wait until the next pass. `soon`: something was asked for, or the last pass has left
    /// something to do.
    pub fn wait(&self, soon: bool, now: Instant) -> Duration {
        let sampled = self.program_stats == ProgramStats::Sampled;
        let mut at = (self.passed + self.quiet).min(self.sampled + self.sample);
        if sampled && !self.measuring {
            // A pass before that takes it along, so that it needs no wake-up of its own.
            at = at.min(self.measure + MEASURE_LATE);
        }
        if soon || (sampled && self.measuring) {
            at = at.min(self.passed + TICK);
        }
        at.max(self.passed + TICK).saturating_duration_since(now)
    }

    /// Begins a pass. `asked`: something has happened since the last one. `minute`: the end of the current
    /// minute, as tasks that do something each minute count it.
    pub fn pass(&mut self, asked: bool, minute: Instant, now: Instant) -> Due {
        self.passed = now;
        let ended = std::mem::replace(&mut self.minute, minute);
        if ended != minute {
            self.tidy = Some(ended + SETTLED);
        }
        let tidy = self.tidy.take_if(|at| now >= *at).is_some();
        let is_due = |last: &mut Instant, every| {
            let is_due = now.saturating_duration_since(*last) >= every;
            if is_due {
                *last = now;
            }
            is_due
        };
        Due {
            walk: is_due(&mut self.walked, WALK),
            sample: is_due(&mut self.sampled, self.sample),
            trim: (asked && is_due(&mut self.trimmed, TRIM)) || tidy,
            unmap: tidy,
        }
    }

    /// The tree was walked although it was not due.
    pub fn walked(&mut self, now: Instant) {
        self.walked = now;
    }

    /// Whether the kernel is to measure the programs until the next pass.
    pub fn measures(&mut self, now: Instant) -> bool {
        self.measuring = match self.program_stats {
            ProgramStats::Always => true,
            ProgramStats::Off => false,
            ProgramStats::Sampled if self.measuring => {
                self.measure = now + MEASURE - TICK;
                false
            }
            ProgramStats::Sampled => now >= self.measure,
        };
        self.measuring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Duration = Duration::from_secs(10);
    const RETENTION: Duration = Duration::from_secs(300);
    const MINUTE: Duration = Duration::from_secs(57);

    /// Runs the schedule for a time; `asks` says whether something happens in the second of that number.
    /// Returns the passes by what they had to do.
    fn run(stats: ProgramStats, seconds: u64, asks: impl Fn(u64) -> bool) -> Passes {
        let begun = Instant::now();
        let minute = |now: Instant| begun + MINUTE * (now.duration_since(begun).as_secs() as u32 / 57 + 1);
        let mut schedule = Schedule::new(SAMPLE, RETENTION, stats, minute(begun), begun);
        let (mut now, mut passes) = (begun, Passes::default());
        let mut measured_since = None;
        let end = begun + Duration::from_secs(seconds);
        while now < end {
            let second = now.duration_since(begun).as_secs();
            let asked = asks(second);
            now += schedule.wait(asked, now);
            let due = schedule.pass(asked, minute(now), now);
            passes.all += 1;
            passes.walks += usize::from(due.walk);
            passes.samples += usize::from(due.sample);
            passes.trims += usize::from(due.trim);
            passes.unmaps += usize::from(due.unmap);
            match (schedule.measures(now), measured_since) {
                (true, None) => measured_since = Some(now),
                (false, Some(since)) => {
                    passes.measured += now - since;
                    measured_since = None;
                }
                _ => {}
            }
        }
        passes
    }

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Passes {
        all: usize,
        walks: usize,
        samples: usize,
        trims: usize,
        unmaps: usize,
        measured: Duration,
    }

    #[test]
    fn a_quiet_node_has_few_passes_and_a_busy_one_one_each_second() {
        let quiet = run(ProgramStats::Sampled, 600, |_| false);
        assert!((60..=81).contains(&quiet.all), "{quiet:?}");
        let busy = run(ProgramStats::Sampled, 600, |_| true);
        assert!((590..=601).contains(&busy.all), "{busy:?}");
        assert_eq!(quiet.trims, quiet.unmaps);
        assert!((60..=70).contains(&busy.trims), "{busy:?}");
        assert_eq!(run(ProgramStats::Sampled, 3 * 3600 + 60, |_| false).walks, 6);
        for passes in [quiet, busy] {
            assert!(passes.walks == 0 && (59..=61).contains(&passes.samples), "{passes:?}");
            assert!((9..=10).contains(&passes.unmaps), "{passes:?}");
        }
    }

    #[test]
    fn what_a_minute_has_left_is_given_back_right_after_it() {
        let begun = Instant::now();
        let (first, second) = (begun + MINUTE, begun + 2 * MINUTE);
        let mut schedule = Schedule::new(SAMPLE, RETENTION, ProgramStats::Off, first, begun);
        let mut pass = |seconds, minute| {
            let due = schedule.pass(false, minute, begun + Duration::from_secs(seconds));
            assert_eq!(due.trim, due.unmap);
            due.trim
        };
        assert!(!pass(56, first));
        assert!(!pass(58, second), "lists are being read");
        assert!(pass(68, second));
        assert!(!pass(113, second), "once");
    }

    #[test]
    fn sampled_statistics_are_measured_for_a_second_each_minute() {
        for asks in [false, true] {
            let sampled = run(ProgramStats::Sampled, 600, |_| asks).measured;
            assert!((10..=11).contains(&sampled.as_secs()), "{asks}: {sampled:?}");
        }
        assert_eq!(run(ProgramStats::Off, 60, |_| true).measured, Duration::ZERO);
        let now = Instant::now();
        let mut always = Schedule::new(SAMPLE, RETENTION, ProgramStats::Always, now, now);
        assert!(always.measures(now));
        assert_eq!(always.wait(false, now), SAMPLE / 2);
    }

    #[test]
    fn what_is_asked_for_waits_a_second_at_most() {
        let now = Instant::now();
        let schedule = Schedule::new(SAMPLE, RETENTION, ProgramStats::Off, now, now);
        assert_eq!(schedule.wait(true, now), TICK);
        assert_eq!(schedule.wait(true, now + Duration::from_millis(400)), Duration::from_millis(600));
        assert_eq!(schedule.wait(true, now + Duration::from_secs(5)), Duration::ZERO);
        for (sample, retention) in [(TICK, RETENTION), (SAMPLE, TICK), (SAMPLE, Duration::ZERO)] {
            let often = Schedule::new(sample, retention, ProgramStats::Off, now, now);
            assert_eq!(often.wait(false, now), TICK);
        }
    }
}
