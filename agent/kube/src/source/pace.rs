//! How long to wait before the API server is asked again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use nodewarden_model::backoff::Backoff;

/// Waits between attempts that fail: doubled up to a quarter of a minute, so that pods are here soon after an
/// outage.
const WAITS: Backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(15));

/// Waits that grow with each failure in a row, none of them quite like another agent's.
#[derive(Debug)]
pub struct Pace(Backoff);

impl Default for Pace {
    fn default() -> Self {
        Self(WAITS)
    }
}

impl Pace {
    /// Waits after a failure; as long as the API server asks for, if that is longer.
    pub async fn failed(&mut self, error: Option<&kube::Error>) {
        let wait = jittered(self.0.advance()).max(error.and_then(asked).unwrap_or_default());
        tokio::time::sleep(wait).await;
    }

    /// The next failure is the first one again.
    pub fn succeeded(&mut self) {
        self.0.reset();
    }
}

/// Between half of the time and one and a half times it.
pub fn jittered(time: Duration) -> Duration {
    // Seeded at random for each value.
    let random = RandomState::new().build_hasher().finish() >> 32;
    time.mul_f64(0.5 + random as f64 / f64::from(u32::MAX))
}

/// What an answer says under `retryAfterSeconds` (429, 503).
fn asked(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref().map(|details| details.retry_after_seconds)?;
    /// No server keeps this agent waiting for longer.
    const LONGEST: u64 = 60;
    Some(Duration::from_secs(u64::from(seconds).min(LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_spread_around_their_length() {
        let waits: Vec<Duration> = (0..100).map(|_| jittered(Duration::from_secs(10))).collect();
        assert!(waits.iter().all(|wait| (5..=15).contains(&wait.as_secs())), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }
}
