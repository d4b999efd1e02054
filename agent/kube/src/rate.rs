//! How many requests a second may be made: a token bucket, as client-go's flow control. Pure: the time is given.

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

    /// Takes a token. Without one, how long it takes until there is one.
    ///
    /// # Errors
    /// There is none: the time until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.per_second <= 0.0 {
            return Ok(());
        }
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / self.per_second) + Duration::from_micros(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_at_a_time() {
        let mut now = Instant::now();
        let mut rate = Rate::new(10.0, 3, now);
        assert_eq!((0..5).filter(|_| rate.take(now).is_ok()).count(), 3);
        let wait = rate.take(now).unwrap_err();
        assert!(wait > Duration::from_millis(99) && wait < Duration::from_millis(101), "{wait:?}");
        now += wait;
        assert!(rate.take(now).is_ok() && rate.take(now).is_err());
        now += Duration::from_secs(3600);
        assert_eq!((0..5).filter(|_| rate.take(now).is_ok()).count(), 3);
        assert!((0..1000).all(|_| Rate::new(0.0, 1, now).take(now).is_ok()), "no limit");
    }
}
