//! Which thresholds are met since a moment ago, so that each crossing is reported once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nodewarden_config::Signal;

/// A threshold that is met again within this time is still the same crossing: a kubelet looks every 10 s, and
/// here a reading can come each millisecond.
const SAME: Duration = Duration::from_secs(10);

/// When each threshold was last met.
#[derive(Debug, Default)]
pub struct Crossings {
    met: BTreeMap<Signal, Instant>,
    /// The time of the last reading.
    read: Option<Instant>,
}

impl Crossings {
    /// Takes note of the thresholds that a reading `now` meets, and returns those that were not met before.
    pub fn begun(&mut self, met: impl IntoIterator<Item = Signal>, now: Instant) -> Vec<Signal> {
        let read = self.read.replace(now);
        self.met.retain(|_, last| Some(*last) == read || now.saturating_duration_since(*last) < SAME);
        met.into_iter().filter(|signal| self.met.insert(*signal, now).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crossing_is_reported_once() {
        let (memory, pids) = (Signal::MemoryAvailable, Signal::PidAvailable);
        let (mut crossings, begun) = (Crossings::default(), Instant::now());
        for (milliseconds, met, expected) in [
            (0, &[][..], &[][..]),
            (1, &[memory], &[memory]),
            (2, &[memory], &[]),
            (3, &[memory, pids], &[pids]),
            (4, &[memory, memory], &[]),
            // The next reading comes late.
            (30_000, &[memory], &[]),
            (31_000, &[], &[]),
            // What is available goes to and fro around the threshold.
            (32_000, &[memory], &[]),
            (33_000, &[], &[]),
            (42_000, &[memory, pids], &[memory, pids]),
        ] {
            let now = begun + Duration::from_millis(milliseconds);
            assert_eq!(crossings.begun(met.iter().copied(), now), expected, "after {milliseconds} ms");
        }
    }
}
