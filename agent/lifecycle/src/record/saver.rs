//! Saves a pod's record in the background: one at a time, and of several only the newest.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use tokio::sync::Notify;
use tracing::warn;

use super::Record;
use crate::record::store::Store;

/// See the module. What was given is saved also after this is dropped. While nothing is to be saved it holds
/// no record and no task. Cloning shares it.
#[derive(Debug, Clone)]
pub struct RecordSaver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    slot: Mutex<Slot>,
    /// Notified after each write.
    written: Notify,
}

#[derive(Debug, Default)]
struct Slot {
    /// Boxed: there is none nearly always.
    newest: Option<Box<Record>>,
    /// Records given so far.
    given: u64,
    /// Of these, how many are on disk or could not be written; one that a newer one replaced counts with
    /// that.
    done: u64,
    /// A task is on its way through what was given.
    writing: bool,
}

impl RecordSaver {
    pub fn new(store: Arc<Store>) -> Self {
        Self(Arc::new(Shared { store, slot: Mutex::default(), written: Notify::new() }))
    }

    /// Must be called inside a tokio runtime.
    pub fn save(&self, record: Record) {
        let mut slot = self.0.slot();
        slot.given += 1;
        slot.newest = Some(Box::new(record));
        if !std::mem::replace(&mut slot.writing, true) {
            tokio::spawn(write(self.0.clone()));
        }
    }

    /// Waits until everything that was given has been written, or could not be.
    pub async fn settled(&self) {
        let given = self.0.slot().given;
        loop {
            let written = self.0.written.notified();
            tokio::pin!(written);
            // Before looking, or a notification between the look and the wait would be missed.
            written.as_mut().enable();
            if self.0.slot().done >= given {
                return;
            }
            written.await;
        }
    }
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock()
    }

    /// What is to be written next, with its number; with `None` the next save starts another task.
    fn take(&self) -> Option<(u64, Box<Record>)> {
        let mut slot = self.slot();
        let newest = slot.newest.take();
        slot.writing = newest.is_some();
        newest.map(|record| (slot.given, record))
    }
}

async fn write(shared: Arc<Shared>) {
    while let Some((number, record)) = shared.take() {
        let store = shared.store.clone();
        let written = tokio::task::spawn_blocking(move || store.save(&record)).await;
        if let Ok(Err(error)) = written {
            warn!("{error}: a restart of the agent would know less of this pod");
        }
        shared.slot().done = number;
        shared.written.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, pod};

    fn store() -> (tempfile::TempDir, Arc<Store>) {
        let dir = tempfile::tempdir().unwrap();
        let (store, ..) = Store::open(dir.path()).unwrap();
        (dir, Arc::new(store))
    }

    fn record(accepted: i64) -> Record {
        let pod = pod(serde_json::json!({"containers": [{"name": "c", "image": "i"}]}));
        Record::new(&pod, "/manifests/p.yaml", at(accepted))
    }

    #[tokio::test]
    async fn the_newest_record_is_on_disk_once_settled_and_no_record_is_held() {
        let (dir, store) = store();
        let saver = RecordSaver::new(store);
        saver.settled().await;
        for round in 0..3 {
            for n in 0..5 {
                saver.save(record(round * 10 + n));
            }
            saver.settled().await;
            assert_eq!(Store::open(dir.path()).unwrap().1, [record(round * 10 + 4)]);
            // The task may still be about to see that nothing more came.
            while Arc::strong_count(&saver.0) > 1 {
                tokio::task::yield_now().await;
            }
            assert!(saver.0.slot().newest.is_none());
        }
    }

    #[tokio::test]
    async fn a_record_is_saved_after_the_saver_is_dropped_and_a_failure_settles_too() {
        let (dir, store) = store();
        let saver = RecordSaver::new(store);
        let shared = saver.0.clone();
        saver.save(record(1));
        drop(saver);
        RecordSaver(shared.clone()).settled().await;
        assert_eq!(Store::open(dir.path()).unwrap().1, [record(1)]);

        drop(dir);
        let saver = RecordSaver(shared);
        saver.save(record(2));
        saver.settled().await;
    }
}
