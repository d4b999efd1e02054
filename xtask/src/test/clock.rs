//! How long a run of all tests takes: what each part took, and until when another test is begun.

use std::time::{Duration, Instant};

/// The time of one run of `cargo xtask test`.
#[derive(Debug, Clone)]
pub struct Clock {
    begun: Instant,
    part_begun: Instant,
    limit: Option<Duration>,
    parts: Vec<(&'static str, Duration)>,
}

impl Clock {
    /// Begins now. After `limit` no further end-to-end test is begun.
    pub fn start(limit: Option<Duration>) -> Self {
        let begun = Instant::now();
        Self { begun, part_begun: begun, limit, parts: Vec::new() }
    }

    /// A part has ended, and the next begins.
    pub fn ended(&mut self, part: &'static str) {
        let now = Instant::now();
        self.parts.push((part, now - self.part_begun));
        self.part_begun = now;
    }

    /// For how long further tests may be begun; `None` is for ever.
    pub fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.begun.elapsed()))
    }

    /// What took how long, on one line.
    pub fn summary(&self) -> String {
        let parts = self.parts.iter().map(|(part, took)| format!("{part} {}", span(*took)));
        let whole = self.parts.iter().map(|(_, took)| *took).sum::<Duration>();
        format!("took {}: {}\n", span(whole), parts.collect::<Vec<_>>().join(", "))
    }
}

/// Minutes and seconds.
fn span(took: Duration) -> String {
    let seconds = took.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_their_sum() {
        let mut clock = Clock::start(None);
        assert_eq!(clock.left(), None);
        clock.parts = vec![("setup", Duration::from_secs(61)), ("unit tests", Duration::from_millis(59_600))];
        assert_eq!(clock.summary(), "took 2:01: setup 1:01, unit tests 1:00\n");
        clock.ended("nothing");
        assert_eq!(clock.parts.len(), 3);
    }

    #[test]
    fn a_limit_ends_at_nothing() {
        assert_eq!(Clock::start(Some(Duration::ZERO)).left(), Some(Duration::ZERO));
        let left = Clock::start(Some(Duration::from_secs(60))).left().unwrap();
        assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60));
    }
}
