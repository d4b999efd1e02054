//! The latest status of every pod and the pods that the sources want, for readers outside of the lifecycle.
//!
//! A pod source that reports status back subscribes to the changes ([`PodStatusCache::subscribe`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::source::SourcedPod;
use nodewarden_model::{PodRef, PodView};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

/// The status of pods by uid, as the kubelet's status manager keeps it. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct PodStatusCache(Arc<Mutex<Cached>>);

#[derive(Debug, Default)]
struct Cached {
    /// By uid.
    pods: BTreeMap<String, Arc<PodView>>,
    /// How many were removed so far.
    removed: u64,
    /// Pods that cannot start yet because another pod is in their way.
    waiting: Vec<Arc<PodView>>,
    desired: Option<DesiredPods>,
    subscribers: Vec<Weak<Subscriber>>,
    /// Sent to whenever a status was set or removed.
    any: watch::Sender<()>,
}

/// The pods that the sources want.
#[derive(Debug, Clone, Default)]
pub struct DesiredPods {
    /// Every pod that should run.
    pub pods: Arc<[SourcedPod]>,
    /// Every source could be read completely: a pod that is not among them is no longer wanted.
    pub complete: bool,
}

impl PodStatusCache {
    /// Sets a pod's status.
    pub fn set(&self, view: PodView) {
        let view = Arc::new(view);
        let mut cached = self.0.lock();
        let uid = view.pod.uid.clone();
        let before = cached.pods.insert(uid.clone(), view.clone());
        // Compared only if there are subscribers: most agents have none.
        if !cached.subscribers.is_empty() && before.is_none_or(|before| before != view) {
            cached.notify(&uid);
        }
        cached.any.send_replace(());
    }

    /// Removes a pod that has ended for good; one that is not there is ignored.
    pub fn remove(&self, uid: &str) {
        let mut cached = self.0.lock();
        if cached.pods.remove(uid).is_some() {
            cached.removed += 1;
            cached.notify(uid);
            cached.any.send_replace(());
        }
    }

    /// How many pods were removed so far.
    pub fn removed(&self) -> u64 {
        self.0.lock().removed
    }

    /// Sets the pods that the sources want. From the first call on, every pod that runs has a status here.
    pub fn set_desired(&self, desired: DesiredPods) {
        self.0.lock().desired = Some(desired);
    }

    /// The pods that the sources want; none while the agent starts.
    pub fn desired(&self) -> Option<DesiredPods> {
        self.0.lock().desired.clone()
    }

    /// Whether this pod has a status.
    pub fn contains(&self, uid: &str) -> bool {
        self.0.lock().pods.contains_key(uid)
    }

    /// The status of one pod.
    pub fn get(&self, uid: &str) -> Option<Arc<PodView>> {
        self.0.lock().pods.get(uid).cloned()
    }

    /// What an event of this container names; empty where it is not known.
    pub fn container_ref(&self, uid: &str, container: &str) -> PodRef {
        let view = self.get(uid);
        let id = view.as_ref().and_then(|view| view.containers.iter().find(|own| own.name == container));
        PodRef {
            namespace: view.as_ref().map(|view| view.pod.namespace.clone()).unwrap_or_default(),
            name: view.as_ref().map(|view| view.pod.name.clone()).unwrap_or_default(),
            container_id: id.map(|own| own.id.clone()).unwrap_or_default(),
            container_name: container.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// The status of every pod, by namespace and name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        let mut pods: Vec<_> = self.0.lock().pods.values().cloned().collect();
        pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        pods
    }

    /// Sets the pods that cannot start yet because another pod is in their way. They have no part in what is
    /// decided about the pods that are here, and are shown only.
    pub fn set_waiting(&self, waiting: Vec<Arc<PodView>>) {
        self.0.lock().waiting = waiting;
    }

    /// The pods that cannot start yet because another pod is in their way.
    pub fn waiting(&self) -> Vec<Arc<PodView>> {
        self.0.lock().waiting.clone()
    }

    /// The status of every pod, with those that wait, for display. A pod that waits for one with the same uid
    /// is mentioned in that one's message instead, because readers tell pods apart by uid.
    pub fn shown(&self) -> Vec<Arc<PodView>> {
        let mut shown = self.pods();
        for waiting in self.waiting() {
            match shown.iter_mut().find(|view| view.pod.uid == waiting.pod.uid) {
                None => shown.push(waiting),
                Some(view) => {
                    let own = Some(view.message.as_str()).filter(|message| !message.is_empty());
                    let waits = format!(
                        "pod {}/{} of {} waits: {}",
                        waiting.pod.namespace, waiting.pod.name, waiting.origin, waiting.message
                    );
                    let message = own.into_iter().chain([waits.as_str()]).collect::<Vec<_>>().join("; ");
                    Arc::make_mut(view).message = message;
                }
            }
        }
        shown
    }

    /// Reports that the status of any pod was set or removed, for a task that looks at all of them then.
    pub fn any_change(&self) -> watch::Receiver<()> {
        self.0.lock().any.subscribe()
    }

    /// Changes from now on. Pods that are there already come first, as if they had just changed.
    pub fn subscribe(&self) -> StatusChanges {
        let mut cached = self.0.lock();
        let changed = cached.pods.keys().cloned().collect();
        let subscriber = Arc::new(Subscriber { changed: Mutex::new(changed), ring: Notify::new() });
        cached.subscribers.push(Arc::downgrade(&subscriber));
        StatusChanges { cache: self.clone(), subscriber }
    }
}

impl Cached {
    fn notify(&mut self, uid: &str) {
        self.subscribers.retain(|subscriber| {
            let subscriber = subscriber.upgrade();
            if let Some(subscriber) = &subscriber {
                subscriber.changed.lock().insert(uid.to_owned());
                subscriber.ring.notify_one();
            }
            subscriber.is_some()
        });
    }
}

/// What one subscriber has not read yet.
#[derive(Debug)]
struct Subscriber {
    /// Uids of pods.
    changed: Mutex<BTreeSet<String>>,
    ring: Notify,
}

/// Which pods' status changed. A pod that changes several times before it is read is returned once, with its
/// newest status: a slow subscriber holds one uid for each pod and delays nothing else.
#[derive(Debug)]
pub struct StatusChanges {
    cache: PodStatusCache,
    subscriber: Arc<Subscriber>,
}

/// One pod's newest status.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusChange {
    /// The pod's uid.
    pub uid: String,
    /// `None`: the pod has ended for good.
    pub status: Option<Arc<PodView>>,
}

impl StatusChanges {
    /// Waits for the next change. Dropping the future loses no change.
    pub async fn next(&mut self) -> StatusChange {
        loop {
            let uid = self.subscriber.changed.lock().pop_first();
            if let Some(uid) = uid {
                let status = self.cache.get(&uid);
                return StatusChange { uid, status };
            }
            self.subscriber.ring.notified().await;
        }
    }
}
