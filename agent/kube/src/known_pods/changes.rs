//! Who is notified of pods that changed at the API server.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::PodKey;

/// Everyone who wants to know of changes.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Vec<Weak<Subscriber>>);

/// What one of them has not read yet.
#[derive(Debug, Default)]
struct Subscriber {
    changed: Mutex<BTreeSet<PodKey>>,
    ring: Notify,
}

/// Which pods changed at the API server: each name once, however often it changed before it is read.
#[derive(Debug)]
pub struct KnownChanges(Arc<Subscriber>);

impl Subscribers {
    pub(super) fn subscribe(&mut self, first: impl Iterator<Item = PodKey>) -> KnownChanges {
        let subscriber = Arc::new(Subscriber { changed: Mutex::new(first.collect()), ring: Notify::new() });
        self.0.push(Arc::downgrade(&subscriber));
        KnownChanges(subscriber)
    }

    pub(super) fn notify(&mut self, key: &PodKey) {
        self.each(|subscriber| {
            subscriber.changed.lock().insert(key.clone());
            subscriber.ring.notify_one();
        });
    }

    pub(super) fn wake(&mut self) {
        self.each(|subscriber| subscriber.ring.notify_one());
    }

    fn each(&mut self, act: impl Fn(&Subscriber)) {
        self.0.retain(|subscriber| {
            let subscriber = subscriber.upgrade();
            if let Some(subscriber) = &subscriber {
                act(subscriber);
            }
            subscriber.is_some()
        });
    }
}

impl KnownChanges {
    /// The names that changed since they were last taken; empty if none did.
    pub fn take(&self) -> BTreeSet<PodKey> {
        std::mem::take(&mut *self.0.changed.lock())
    }

    /// Waits until something changed, or a list was read, since this was last awaited.
    pub async fn changed(&self) {
        self.0.ring.notified().await;
    }
}
