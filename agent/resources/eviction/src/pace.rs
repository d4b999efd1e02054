//! How long until the next reading: far from every threshold seconds, close to one milliseconds.
//!
//! The distance to the nearest threshold that is not passed yet, over twice the speed at which it may come closer, is the
//! time that cannot be too long. That speed is the fastest that was seen lately, and at least one that a pod can reach
//! from one reading to the next: who allocates as fast as a machine can is not to cross the threshold unseen.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Observations;
use super::assess::limit;
use nodewarden_config::{EvictionSettings, EvictionThreshold, Signal};

/// So many times faster than expected it may be without a threshold being crossed unseen.
const MARGIN: f64 = 2.0;
/// After so long without more, the fastest speed seen counts half.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// File systems are not read more often for their own sake, and what cannot be read is not tried more often.
const SLOW: Duration = Duration::from_secs(1);
/// While a threshold is passed, the next reading comes after this part of the time that it has been.
const PASSED_PART: u32 = 4;

/// When to read next.
#[derive(Debug, Clone)]
pub struct Pace {
    min: Duration,
    max: Duration,
    signals: BTreeMap<Signal, Track>,
    /// When memory and processes, and when file systems are to be read.
    quick: Duration,
    disks: Duration,
}

/// One signal's past.
#[derive(Debug, Clone, Copy)]
struct Track {
    at: Duration,
    available: u64,
    /// Consumption in units a second: the fastest seen, fading.
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

    /// Takes in what was read `at` a moment of a clock that only goes forward, and says after how long to read again.
    /// Only what was read now belongs in `observations`; file systems may be missing.
    pub fn seen(
        &mut self,
        at: Duration,
        observations: &Observations,
        thresholds: &[EvictionThreshold],
    ) -> Duration {
        let (mut quick, mut disks) = (None, None);
        for (signal, observed) in observations {
            let track = self.track(*signal, at, observed.available);
            let limits = thresholds.iter().filter(|t| t.signal == *signal);
            let mut wait = self.max;
            let mut passed = false;
            for threshold in limits {
                match observed.available.checked_sub(limit(&threshold.value, observed.capacity)) {
                    Some(distance) => wait = wait.min(time(distance, track.speed.max(least_speed(*signal)))),
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
                false => (&mut quick, self.min),
            };
            let wait = wait.max(least);
            *group = Some(group.map_or(wait, |other: Duration| other.min(wait)));
        }
        if let Some(wait) = quick {
            self.quick = at + wait;
        }
        if let Some(wait) = disks {
            // An extra reading never puts off the one that is due.
            let planned = Some(self.disks).filter(|planned| *planned > at);
            self.disks = planned.map_or(at + wait, |planned| planned.min(at + wait));
        }
        // Where nothing could be read it is tried again soon; where nothing is to be watched it is not.
        let until = |next: Duration, disk: bool| match next.saturating_sub(at) {
            Duration::ZERO if thresholds.iter().any(|t| is_disk(t.signal) == disk) => SLOW,
            Duration::ZERO => self.max,
            wait => wait,
        };
        until(self.quick, false).min(until(self.disks, true)).max(self.min)
    }

    /// Whether file systems are to be read along at this moment.
    pub fn disks_due(&self, at: Duration) -> bool {
        at >= self.disks
    }

    fn track(&self, signal: Signal, at: Duration, available: u64) -> Track {
        let Some(before) = self.signals.get(&signal) else {
            return Track { at, available, speed: 0.0, passed: None };
        };
        let took = at.saturating_sub(before.at);
        let consumed = before.available.saturating_sub(available) as f64;
        // Two readings at once tell a jump, not a speed.
        let now = consumed / took.max(self.min).as_secs_f64().max(f64::EPSILON);
        let faded = before.speed * 0.5_f64.powf(took.as_secs_f64() / HALF_LIFE.as_secs_f64());
        Track { at, available, speed: now.max(faded), passed: before.passed }
    }
}

/// How long a distance may be left alone at a speed in units a second.
fn time(distance: u64, speed: f64) -> Duration {
    Duration::try_from_secs_f64(distance as f64 / (speed * MARGIN)).unwrap_or(Duration::MAX)
}

/// Units a second that are always expected, however calm it was: memory that a thread touches for the first time, forks,
/// writes to a fast disk, new files.
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
#[path = "pace_tests.rs"]
mod tests;
