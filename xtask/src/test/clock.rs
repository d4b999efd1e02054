//! How long each part of `cargo xtask test` took.

use std::time::{Duration, Instant};

/// The time of one run of `cargo xtask test`.
#[derive(Debug, Clone)]
pub struct Clock {
    part_begun: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self { part_begun: Instant::now(), parts: Vec::new() }
    }

    /// A part has ended, and the next begins.
    pub fn ended(&mut self, part: &'static str) {
        let now = Instant::now();
        self.parts.push((part, now - self.part_begun));
        self.part_begun = now;
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
        let mut clock = Clock::start();
        clock.parts = vec![("setup", Duration::from_secs(61)), ("unit tests", Duration::from_millis(59_600))];
        assert_eq!(clock.summary(), "took 2:01: setup 1:01, unit tests 1:00\n");
        clock.ended("nothing");
        assert_eq!(clock.parts.len(), 3);
    }
}
