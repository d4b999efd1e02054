//! Work at places (mount points) that may never answer: a caller waits for a limited time, and a place
//! occupies a limited number of threads, so that another place's callers find threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Purpose;

/// The place did not answer in time. The thread that asked stays occupied until it does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} is not answering: no result after {} s", .limit.as_secs())]
pub struct NotAnswering {
    /// What did not answer.
    pub place: String,
    /// How long the caller has waited.
    pub limit: Duration,
}

/// Places of one purpose. Clones share the bounds.
#[derive(Debug, Clone)]
pub struct Places {
    purpose: &'static Purpose,
    /// How many threads a place can occupy.
    each: usize,
    /// Places with work under way.
    pub(super) used: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
}

impl Places {
    /// Places whose work is done by the threads of `purpose`, each place by at most `each` of them.
    pub fn new(purpose: &'static Purpose, each: usize) -> Self {
        Self { purpose, each, used: Arc::default() }
    }

    /// Runs `work`, which touches `places`, and waits for at most `limit`. `None` if the work panicked or the
    /// runtime ends.
    ///
    /// # Errors
    /// There is no result in time: the work has not returned, or what was asked before occupies every thread
    /// that these places may have.
    pub async fn run<T: Send + 'static>(
        &self,
        places: BTreeSet<String>,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, NotAnswering> {
        let place = places.iter().cloned().collect::<Vec<_>>().join(", ");
        let done = async {
            // In the order of their names, so that no two callers each wait for what the other has.
            let mut turns = Vec::with_capacity(places.len());
            for place in places {
                turns.push(self.turn(place).await);
            }
            let ran = self.purpose.run(move || {
                let _turns = turns;
                work()
            });
            ran.await.ok()
        };
        tokio::time::timeout(limit, done).await.map_err(|_| NotAnswering { place, limit })
    }

    /// The right to occupy a thread at a place.
    async fn turn(&self, place: String) -> Option<OwnedSemaphorePermit> {
        let bound = {
            let mut used = self.used.lock();
            // Who occupies a place or waits for it shares its bound.
            used.retain(|_, bound| Arc::strong_count(bound) > 1);
            used.entry(place).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone()
        };
        // An error only for a closed semaphore: these are never closed.
        bound.acquire_owned().await.ok()
    }
}
