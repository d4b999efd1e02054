//! How long a resource must be calm before it is released: longer after each release that came too early.
//!
//! A release under a continuing load has to be reverted. Each such failure doubles the delay of the next
//! release, up to a bound, so that releases become rare under an unchanging load.

use std::time::Duration;

/// The delay before a release. Times are of a monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseDelay {
    base: Duration,
    most: Duration,
    current: Duration,
    released: Option<Duration>,
}

impl ReleaseDelay {
    pub fn new(base: Duration, most: Duration) -> Self {
        Self { base, most: most.max(base), current: base, released: None }
    }

    /// How long the resource must be calm now.
    pub fn needed(&self) -> Duration {
        self.current
    }

    /// The shortest delay.
    pub fn base(&self) -> Duration {
        self.base
    }

    pub fn released(&mut self, at: Duration) {
        self.released = Some(at);
    }

    /// Records that throttling was needed again: soon after a release, the release was too early; long after,
    /// this is another load.
    pub fn squeezed(&mut self, at: Duration) {
        match self.released.take() {
            Some(released) if at.saturating_sub(released) <= self.current => {
                self.current = (self.current * 2).min(self.most);
            }
            Some(_) => self.current = self.base,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_came_too_early_doubles_the_delay() {
        let seconds = Duration::from_secs;
        let mut hold = ReleaseDelay::new(seconds(10), seconds(60));
        let mut at = seconds(0);
        for needed in [10, 20, 40, 60, 60] {
            assert_eq!(hold.needed(), seconds(needed));
            hold.released(at);
            at += seconds(2);
            hold.squeezed(at);
            // A further step of the same throttling does not count against the release.
            hold.squeezed(at + seconds(1));
        }
        hold.released(at);
        hold.squeezed(at + seconds(61));
        assert_eq!(hold.needed(), seconds(10), "another load");
    }
}
