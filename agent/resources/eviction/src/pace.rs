//! Time until the next reading: seconds far from every threshold, milliseconds close to one.
//!
//! It is the distance to the nearest threshold that is not passed yet, divided by twice the expected
//! consumption rate. That rate is the fastest seen lately, and at least one that a pod can reach from one
//! reading to the next, so that a pod that allocates as fast as the machine can does not cross a threshold
//! between two readings.
//!
//! The shortest interval of the configuration holds as long as that rate is only expected. If at the rate
//! that was seen a threshold would be crossed within it, memory and processes are read again sooner, at most
//! twenty times as often: each of these readings comes after half of the time that is left.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Observations;
use super::assess::limit;
use nodewarden_config::{EvictionSettings, EvictionThreshold, Signal};

/// While a threshold is about to be crossed, the shortest interval is divided by this.
const CLOSE_PART: u32 = 20;
/// The result of that division is at least this: a reading takes a tenth of it.
const CLOSEST: Duration = Duration::from_micros(500);
/// Consumption may be this many times faster than expected without crossing a threshold between two readings.
const MARGIN: f64 = 2.0;
/// Half-life of the fastest rate seen.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Shortest time between readings of file systems, and before a failed reading is tried again.
const SLOW: Duration = Duration::from_secs(1);
/// While a threshold is passed, the next reading comes after 1/`PASSED_PART` of the time since it was passed.
const PASSED_PART: u32 = 4;

/// Computes when to read next.
#[derive(Debug, Clone)]
pub struct Pace {
    min: Duration,
    max: Duration,
    signals: BTreeMap<Signal, Track>,
    /// When memory and processes, and when file systems, have to be read next.
    quick: Duration,
    disks: Duration,
}

/// Last reading of a signal.
#[derive(Debug, Clone, Copy)]
struct Track {
    at: Duration,
    available: u64,
    /// Consumption in units per second: the fastest seen, decaying with [`HALF_LIFE`].
    speed: f64,
    /// Since when a threshold of it is passed.
    passed: Option<Duration>,
}

impl Pace {
    pub fn new(settings: &EvictionSettings) -> Self {
        Self {
            min: settings.min_interval,
            max: settings.max_interval,
            signals: BTreeMap::new(),
            quick: Duration::ZERO,
            disks: Duration::ZERO,
        }
    }

    /// Takes the readings made at `at` (monotonic time) and returns the time until the next reading.
    /// `observations` holds only what was read now; file systems may be missing.
    pub fn next_reading(
        &mut self,
        at: Duration,
        observations: &Observations,
        thresholds: &[EvictionThreshold],
    ) -> Duration {
        let (mut quick, mut disks) = (None, None);
        let mut shortest = self.min;
        for (signal, observed) in observations {
            let track = self.track(*signal, at, observed.available);
            let limits = thresholds.iter().filter(|t| t.signal == *signal);
            let (mut wait, mut seen) = (self.max, self.max);
            let mut passed = false;
            for threshold in limits {
                match observed.available.checked_sub(limit(&threshold.value, observed.capacity)) {
                    Some(distance) => {
                        wait = wait.min(time(distance, track.speed.max(least_speed(*signal))));
                        seen = seen.min(time(distance, track.speed));
                    }
                    None => passed = true,
                }
            }
            let passed = passed.then(|| track.passed.unwrap_or(at));
            if let Some(since) = passed {
                wait = wait.min((at.saturating_sub(since) / PASSED_PART).min(SLOW));
            }
            self.signals.insert(*signal, Track { passed, ..track });
            let (group, least) = match is_disk(*signal) {
                true => (&mut disks, self.min.max(SLOW)),
                false => (&mut quick, seen.clamp(self.closest(), self.min)),
            };
            shortest = shortest.min(least);
            let wait = wait.max(least);
            *group = Some(group.map_or(wait, |other: Duration| other.min(wait)));
        }
        if let Some(wait) = quick {
            self.quick = at + wait;
        }
        if let Some(wait) = disks {
            // An extra reading never postpones the one that is due.
            let planned = Some(self.disks).filter(|planned| *planned > at);
            self.disks = planned.map_or(at + wait, |planned| planned.min(at + wait));
        }
        // If nothing could be read it is tried again soon; if there is nothing to watch it is not.
        let until = |next: Duration, disk: bool| match next.saturating_sub(at) {
            Duration::ZERO if thresholds.iter().any(|t| is_disk(t.signal) == disk) => SLOW,
            Duration::ZERO => self.max,
            wait => wait,
        };
        until(self.quick, false).min(until(self.disks, true)).max(shortest)
    }

    /// The shortest interval while a threshold is about to be crossed.
    fn closest(&self) -> Duration {
        (self.min / CLOSE_PART).max(CLOSEST).min(self.min)
    }

    fn track(&self, signal: Signal, at: Duration, available: u64) -> Track {
        let Some(before) = self.signals.get(&signal) else {
            return Track { at, available, speed: 0.0, passed: None };
        };
        let took = at.saturating_sub(before.at);
        let consumed = before.available.saturating_sub(available) as f64;
        // Two readings at the same moment show a jump, not a rate.
        let now = consumed / took.max(self.closest()).as_secs_f64().max(f64::EPSILON);
        let faded = before.speed * 0.5_f64.powf(took.as_secs_f64() / HALF_LIFE.as_secs_f64());
        Track { at, available, speed: now.max(faded), passed: before.passed }
    }
}

/// Time to cover a distance at a rate in units per second, with the margin.
fn time(distance: u64, speed: f64) -> Duration {
    Duration::try_from_secs_f64(distance as f64 / (speed * MARGIN)).unwrap_or(Duration::MAX)
}

/// Consumption in units per second that is always expected: memory that a thread touches for the first time,
/// forks, writes to a fast disk, new files.
fn least_speed(signal: Signal) -> f64 {
    const GIB: f64 = (1_u64 << 30) as f64;
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => 2.0 * GIB,
        Signal::PidAvailable => 10_000.0,
        Signal::NodeFsAvailable | Signal::ImageFsAvailable | Signal::ContainerFsAvailable => GIB,
        Signal::NodeFsInodesFree | Signal::ImageFsInodesFree | Signal::ContainerFsInodesFree => 50_000.0,
    }
}

fn is_disk(signal: Signal) -> bool {
    !matches!(signal, Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable)
}

#[cfg(test)]
mod tests;
