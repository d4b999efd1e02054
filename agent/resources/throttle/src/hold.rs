//! How long calm must last before something is released: longer each time when that was too early.
//!
//! What is released under a load that goes on has to be taken again. Each such failure doubles the time until the next
//! try, up to a bound, so that under an unchanging load releases become rare instead of going on for ever.

use std::time::Duration;

/// See the module. Times are of any clock that never goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    base: Duration,
    most: Duration,
    current: Duration,
    released: Option<Duration>,
}

impl Hold {
    pub fn new(base: Duration, most: Duration) -> Self {
        Self { base, most: most.max(base), current: base, released: None }
    }

    /// How long it must be calm now.
    pub fn needed(&self) -> Duration {
        self.current
    }

    /// The shortest that it ever is.
    pub fn base(&self) -> Duration {
        self.base
    }

    pub fn released(&mut self, at: Duration) {
        self.released = Some(at);
    }

    /// Soon after a release it was too early; long after, this is another load.
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
    fn too_early_is_longer_the_next_time() {
        let seconds = Duration::from_secs;
        let mut hold = Hold::new(seconds(10), seconds(60));
        let mut at = seconds(0);
        for needed in [10, 20, 40, 60, 60] {
            assert_eq!(hold.needed(), seconds(needed));
            hold.released(at);
            at += seconds(2);
            hold.squeezed(at);
            // A further step of the same squeeze says nothing of the release.
            hold.squeezed(at + seconds(1));
        }
        hold.released(at);
        hold.squeezed(at + seconds(61));
        assert_eq!(hold.needed(), seconds(10), "another load");
    }
}
