//! How many requests a second may be made: a token bucket, as client-go's flow control. Pure: the time is
//! given.

use std::time::{Duration, Instant};

/// So many requests a second, and so many at once after a pause.
#[derive(Debug, Clone)]
pub struct Rate {
    per_second: f64,
    burst: f64,
    tokens: f64,
    since: Instant,
}

impl Rate {
    /// `per_second` 0: no limit. A burst below 1 counts as 1.
    pub fn new(per_second: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second, burst, tokens: burst, since: now }
    }

    /// How long it takes until there is a token; nothing if there is one.
    pub fn wait(&mut self, now: Instant) -> Option<Duration> {
        if self.per_second <= 0.0 {
            return None;
        }
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        let missing = (1.0 - self.tokens).max(0.0);
        (missing > 0.0).then(|| Duration::from_secs_f64(missing / self.per_second) + Duration::from_micros(1))
    }

    /// Takes a token; false without one.
    pub fn take(&mut self, now: Instant) -> bool {
        let has = self.wait(now).is_none();
        if has && self.per_second > 0.0 {
            self.tokens -= 1.0;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_at_a_time() {
        let mut now = Instant::now();
        let mut rate = Rate::new(10.0, 3, now);
        assert_eq!((0..5).filter(|_| rate.take(now)).count(), 3);
        let wait = rate.wait(now).unwrap();
        assert!(wait > Duration::from_millis(99) && wait < Duration::from_millis(101), "{wait:?}");
        now += wait;
        assert!(rate.take(now) && !rate.take(now));
        now += Duration::from_secs(3600);
        assert_eq!((0..5).filter(|_| rate.take(now)).count(), 3);
        assert!((0..1000).all(|_| Rate::new(0.0, 1, now).take(now)), "no limit");
    }
}
