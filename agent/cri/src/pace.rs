//! Intervals between queries to the runtime. Pure.

use std::time::{Duration, Instant};

use nodewarden_model::backoff::Backoff;

/// Minimum time between the starts of two refreshes.
pub const LEAST: Duration = Duration::from_secs(1);
/// Time between two questions for the runtime's version, which show that it answers.
pub const REGULAR: Duration = Duration::from_secs(60);
/// Time between two lists of what it has, if no name is missing meanwhile.
pub const LIST: Duration = Duration::from_secs(300);

/// Pause after the `n`th failure (or unsuccessful look-up) in a row, from 1: 1 s doubling to 60 s.
pub fn back_off(n: u32) -> Duration {
    Backoff::doubling(LEAST, REGULAR).nth(n.saturating_sub(1))
}

/// Unsuccessful look-ups of a name: a pod's cgroup exists before its sandbox, and some containers do not
/// belong to the runtime; neither may cause constant queries.
#[derive(Debug, Default)]
pub struct Misses {
    count: u32,
    next: Option<Instant>,
}

impl Misses {
    /// Records a look-up; returns whether the runtime should be queried again.
    pub fn ask(&mut self, now: Instant) -> bool {
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.next = Some(now + back_off(self.count));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_to_a_minute() {
        for (n, seconds) in [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (u32::MAX, 60)] {
            assert_eq!(back_off(n), Duration::from_secs(seconds), "{n}");
        }
    }

    #[test]
    fn unsuccessful_queries_become_rarer() {
        let (start, mut misses) = (Instant::now(), Misses::default());
        let asked: Vec<u64> = (0..200).filter(|s| misses.ask(start + Duration::from_secs(*s))).collect();
        assert_eq!(asked, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    }
}
