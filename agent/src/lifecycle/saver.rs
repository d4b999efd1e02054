//! Saves a pod's record in the background: one at a time, and of several only the newest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::Record;
use super::store::Store;

/// See the module. What was given is saved also after this is dropped.
#[derive(Debug)]
pub struct Saver {
    records: mpsc::UnboundedSender<(u64, Record)>,
    given: AtomicU64,
    done: watch::Receiver<u64>,
}

impl Saver {
    /// Must be called inside a tokio runtime.
    pub fn new(store: Arc<Store>) -> Self {
        let (records, mut given) = mpsc::unbounded_channel::<(u64, Record)>();
        let (tell, done) = watch::channel(0);
        tokio::spawn(async move {
            while let Some(mut newest) = given.recv().await {
                while let Ok(newer) = given.try_recv() {
                    newest = newer;
                }
                let (number, record) = newest;
                let store = store.clone();
                let written = tokio::task::spawn_blocking(move || store.save(&record)).await;
                if let Ok(Err(error)) = written {
                    warn!("{error}: a restart of the agent would know less of this pod");
                }
                tell.send_replace(number);
            }
        });
        Self { records, given: AtomicU64::new(0), done }
    }

    pub fn save(&self, record: Record) {
        let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
        // The task lives as long as the sender, unless the agent ends.
        let _ = self.records.send((number, record));
    }

    /// Waits until everything that was given has been written, or could not be.
    pub async fn settled(&self) {
        let given = self.given.load(Ordering::Relaxed);
        let _ = self.done.clone().wait_for(|done| *done >= given).await;
    }
}
