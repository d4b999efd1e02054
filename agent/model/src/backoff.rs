//! Exponential back-off: how long to wait before the next attempt.

use std::time::Duration;

/// Waiting times that grow by a factor from an initial one up to a maximum. It holds no clock: the caller
/// waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    factor: u32,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// The first wait is `initial`, each further one `factor` times the one before, and none is longer than
    /// `max`.
    const fn new(initial: Duration, factor: u32, max: Duration) -> Self {
        Self { initial, factor, max, next: initial }
    }

    /// A back-off whose waits double.
    pub const fn doubling(initial: Duration, max: Duration) -> Self {
        Self::new(initial, 2, max)
    }

    /// The wait before the next attempt, at most `max`. Calling it does not lengthen the next wait.
    pub fn wait(&self) -> Duration {
        self.next.min(self.max)
    }

    /// Returns the wait before the next attempt and lengthens the one after it.
    pub fn advance(&mut self) -> Duration {
        let wait = self.wait();
        self.next = wait.saturating_mul(self.factor).min(self.max);
        wait
    }

    /// Starts again with the initial wait, as after a success.
    pub fn reset(&mut self) {
        self.next = self.initial;
    }

    /// The wait after `before` earlier waits: `nth(0)` is the first. It does not depend on
    /// [`Backoff::advance`].
    pub fn nth(&self, before: u32) -> Duration {
        self.initial.saturating_mul(self.factor.saturating_pow(before)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_grow_to_the_longest_and_begin_again_after_a_reset() {
        let mut backoff = Backoff::doubling(SECOND, 10 * SECOND);
        let waits: Vec<u64> = (0..6).map(|_| backoff.advance().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.wait(), 10 * SECOND);
        backoff.reset();
        assert_eq!([backoff.wait(), backoff.advance(), backoff.wait()], [SECOND, SECOND, 2 * SECOND]);
        let waits: Vec<u64> = (0..6).map(|n| backoff.nth(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff::new(SECOND, 10, Duration::MAX);
        for _ in 0..100 {
            backoff.advance();
        }
        assert_eq!(backoff.wait(), Duration::MAX);
        // More doublings than a u32 can hold the result of.
        let backoff = Backoff::doubling(SECOND, 300 * SECOND);
        assert_eq!(backoff.nth(u32::MAX), 300 * SECOND);
        let short = Backoff::doubling(2 * SECOND, SECOND);
        assert_eq!((short.wait(), short.nth(0)), (SECOND, SECOND));
    }
}
