//! How many images are pulled at a time, and how many pulls may begin in a time (kubelet:
//! pkg/kubelet/images/helpers.go, `throttledImageService`).

pub mod verified;

use std::time::Instant;

use nodewarden_config::PullRate;
use nodewarden_tasks::rate::Rate;
use parking_lot::Mutex;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// The pulls of all pods.
#[derive(Debug)]
pub struct Pulls {
    turns: Semaphore,
    rate: Mutex<Rate>,
}

impl Pulls {
    /// `None` for no limit, of either.
    pub fn new(at_once: Option<u32>, rate: Option<PullRate>) -> Self {
        let turns = at_once.map_or(Semaphore::MAX_PERMITS, |most| most as usize);
        let (per_second, burst) = rate.map_or((0, 1), |rate| (rate.per_second, rate.burst));
        Self {
            turns: Semaphore::new(turns),
            rate: Mutex::new(Rate::new(per_second.into(), burst, Instant::now())),
        }
    }

    /// Waits until fewer images are pulled than may be.
    pub async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.turns.acquire().await
    }

    /// Whether a pull may begin now, which is then counted. As in a kubelet, one that may not fails and is
    /// tried again after the back-off.
    pub fn may_begin(&self) -> bool {
        self.rate.lock().take(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_may_begin_and_no_more() {
        let begun = |rate| {
            let pulls = Pulls::new(None, rate);
            (0..50).filter(|_| pulls.may_begin()).count()
        };
        // One a second: none is added in the moment that this takes.
        assert_eq!(begun(Some(PullRate { per_second: 1, burst: 3 })), 3);
        assert_eq!(begun(None), 50);
    }

    #[tokio::test]
    async fn so_many_at_a_time() {
        let pulls = Pulls::new(Some(1), None);
        let first = pulls.turn().await.unwrap();
        assert_eq!(pulls.turns.available_permits(), 0);
        drop(first);
        assert!(pulls.turn().await.is_ok());
    }
}
