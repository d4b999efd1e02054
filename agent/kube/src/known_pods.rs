//! What the API server is known to have of this node's pods: the little of it that writing statuses and
//! mirror pods needs. The watch of the API pods fills it, and so do answers to this agent's own requests.
//!
//! A pod is at the API under its namespace and name, and is another pod when its uid differs.

mod changes;
mod digest;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

pub use changes::KnownChanges;
use changes::Subscribers;
pub use digest::{is_own_condition, status_digest};
pub use pod::{ConditionStatus, KnownCondition, KnownPod};

/// Namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
}

impl PodKey {
    /// The key of the pod of this namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The pods of this node at the API server, mirror pods among them. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct KnownPods(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    pods: BTreeMap<PodKey, Arc<KnownPod>>,
    complete: bool,
    subscribers: Subscribers,
}

impl KnownPods {
    /// The result of a list: these pods and no others are at the API server.
    pub fn replace(&self, pods: impl IntoIterator<Item = KnownPod>) {
        let pods: BTreeMap<_, _> = pods.into_iter().map(|pod| (pod.key(), Arc::new(pod))).collect();
        let mut known = self.0.lock();
        let before = std::mem::replace(&mut known.pods, pods);
        let first = !std::mem::replace(&mut known.complete, true);
        let known = &mut *known;
        for (key, pod) in &known.pods {
            if first || before.get(key) != Some(pod) {
                known.subscribers.notify(key);
            }
        }
        for key in before.keys().filter(|key| !known.pods.contains_key(key)) {
            known.subscribers.notify(key);
        }
        // Who waits for the first list is woken also if it was empty.
        known.subscribers.wake();
    }

    /// The API server has this pod now, in place of any other of its name.
    pub fn set(&self, pod: KnownPod) {
        let key = pod.key();
        let mut known = self.0.lock();
        if known.pods.get(&key).is_none_or(|before| **before != pod) {
            known.pods.insert(key.clone(), Arc::new(pod));
            known.subscribers.notify(&key);
        }
    }

    /// The API server no longer has the pod of this name and uid; another uid there is left alone.
    pub fn remove(&self, key: &PodKey, uid: &str) {
        let mut known = self.0.lock();
        if known.pods.get(key).is_some_and(|pod| *pod.uid == *uid) {
            known.pods.remove(key);
            known.subscribers.notify(key);
        }
    }

    /// The pod of this name.
    pub fn get(&self, key: &PodKey) -> Option<Arc<KnownPod>> {
        self.0.lock().pods.get(key).cloned()
    }

    /// Every pod that is known.
    pub fn all(&self) -> Vec<Arc<KnownPod>> {
        self.0.lock().pods.values().cloned().collect()
    }

    /// Whether a list has been read since the agent's start: a pod that is missing here is not at the API
    /// server.
    pub fn is_complete(&self) -> bool {
        self.0.lock().complete
    }

    /// Changes from now on. Pods that are there already come first.
    pub fn subscribe(&self) -> KnownChanges {
        let mut known = self.0.lock();
        let known = &mut *known;
        known.subscribers.subscribe(known.pods.keys().cloned())
    }
}
