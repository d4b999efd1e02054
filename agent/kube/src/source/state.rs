//! What is known of the API server's pods together, and what of it is wanted here. Pure: the time is given.
//!
//! Whatever the order in which events repeat or are skipped, a complete list afterwards leads to what the
//! list says. Until then no pod is lost or ended by an event about another one, by one that cannot be read,
//! or by an old one that comes again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodewarden_manifest::Pod;
use nodewarden_model::{ApiState, Origin};
use nodewarden_pods::source::{Deletion, Desired, Over, PodOrigins, SourceProblem, SourcedPod, Unread};

use super::decode::{Refused, SeenPod};
use crate::known_pods::PodKey;

/// Why a pod ends, in words for its events.
const DELETED: &str = "it was deleted at the API server";
/// Pods that were removed last, of which old events may come again.
const REMEMBERED: usize = 1024;

/// The pods of this node at the API server.
#[derive(Debug, Default)]
pub struct ApiPods {
    pods: BTreeMap<PodKey, Entry>,
    /// Whether there was a list in which the name of every pod could be read: what is missing is gone.
    is_complete: bool,
    /// Uids of pods that were removed since the last list.
    removed: VecDeque<Box<str>>,
    /// Uids and versions of mirror pods, of which nothing else is kept here.
    mirrors: BTreeMap<PodKey, (Box<str>, Option<u64>)>,
    /// The origins of the pods that ran before the first list.
    running: PodOrigins,
}

#[derive(Debug)]
struct Entry {
    uid: Box<str>,
    version: Option<u64>,
    /// As it could be read last.
    pod: Option<Arc<Pod>>,
    /// Why its newest version does not count.
    refused: Option<Refused>,
    deletion: Option<Deletion>,
    over: Option<Over>,
    api: Arc<ApiState>,
}

/// A pod that never could be read.
#[derive(Debug)]
pub struct RefusedPod {
    pub uid: Box<str>,
    /// Its name, and nothing more.
    pub pod: Arc<Pod>,
    pub refused: Refused,
}

impl ApiPods {
    /// Sets the origins of the pods that run.
    pub fn set_running(&mut self, running: PodOrigins) {
        self.running = running;
    }

    /// Takes over a list. `all`: it has no item of which it is unknown which pod it is; otherwise pods that
    /// are missing in it stay. Returns whether anything has changed.
    pub fn list(&mut self, seen: Vec<SeenPod>, all: bool, now: Timestamp) -> bool {
        let mut changed = all && !self.is_complete;
        self.is_complete |= all;
        self.removed.clear();
        self.mirrors.clear();
        if all {
            let before = self.pods.len();
            let keys: BTreeSet<&PodKey> =
                seen.iter().filter(|pod| !pod.is_mirror).map(|pod| &pod.key).collect();
            self.pods.retain(|key, _| keys.contains(key));
            changed |= self.pods.len() != before;
        }
        for pod in seen {
            // A list is newer than any event before it.
            if let Some(entry) = self.pods.get_mut(&pod.key) {
                entry.version = None;
            }
            changed |= self.set(pod, now);
        }
        changed
    }

    /// Takes over one pod. Returns whether anything has changed.
    pub fn set(&mut self, seen: SeenPod, now: Timestamp) -> bool {
        if self.is_old(&seen) {
            return false;
        }
        if seen.is_mirror {
            self.mirrors.insert(seen.key.clone(), (seen.uid.clone(), seen.version));
            // Not one that could have been a pod before.
            return self.pods.get(&seen.key).is_some_and(|entry| entry.uid == seen.uid)
                && self.pods.remove(&seen.key).is_some();
        }
        let before = self.pods.remove(&seen.key);
        let (key, entry, changed) = Entry::new(before, seen, now);
        self.pods.insert(key, entry);
        changed
    }

    /// Whether this is older than what is known of the pod, or the pod is gone already.
    pub fn is_old(&self, seen: &SeenPod) -> bool {
        let entry = self.pods.get(&seen.key).map(|entry| (&*entry.uid, entry.version));
        let mirror = self.mirrors.get(&seen.key).map(|(uid, version)| (&**uid, *version));
        let is_older = |(uid, version): (&str, Option<u64>)| {
            *uid == *seen.uid && seen.version.zip(version).is_some_and(|(seen, known)| seen < known)
        };
        self.removed.contains(&seen.uid) || entry.into_iter().chain(mirror).any(is_older)
    }

    /// The API server no longer has the pod of this name and uid; another uid is left alone. Returns whether
    /// it had been there.
    pub fn remove(&mut self, key: &PodKey, uid: &str) -> bool {
        if !self.removed.iter().any(|removed| **removed == *uid) {
            self.removed.push_back(uid.into());
            if self.removed.len() > REMEMBERED {
                self.removed.pop_front();
            }
        }
        if self.mirrors.get(key).is_some_and(|(own, _)| **own == *uid) {
            self.mirrors.remove(key);
        }
        let is_there = self.pods.get(key).is_some_and(|entry| *entry.uid == *uid);
        is_there && self.pods.remove(key).is_some()
    }

    /// What is wanted here.
    pub fn desired(&self) -> Desired {
        let mut desired = Desired::default();
        if !self.is_complete {
            desired.unread = Unread::of_source(Origin::API);
        }
        let mut pods = Vec::with_capacity(self.pods.len());
        for (key, entry) in &self.pods {
            let origin = Origin::api(key);
            if let Some(refused) = &entry.refused {
                // One that ran before it could not be read runs on.
                desired.unread.extend(Unread::of_origin(origin.clone()));
                let message = format!("pod {key} of the API server: {}", refused.message);
                desired.problems.push(SourceProblem { origin: Some(origin.clone()), message });
            }
            let pod = match (&entry.pod, &entry.deletion) {
                (Some(pod), _) => pod.clone(),
                // What may be left of it is known by its uid.
                (None, Some(_)) => nameplate(key, &entry.uid),
                (None, None) => continue,
            };
            pods.push(SourcedPod {
                pod,
                origin,
                deletion: entry.deletion.clone().map(Box::new),
                over: entry.over.clone().map(Box::new),
                api: Some(entry.api.clone()),
            });
        }
        desired.pods = pods.into();
        desired
    }

    /// The pods that are not run since they never could be read, and are not being deleted.
    pub fn refused(&self) -> Vec<RefusedPod> {
        let never_read = |(key, entry): (&PodKey, &Entry)| {
            let runs = self.running.is(&key.namespace, &key.name, &Origin::api(key));
            let refused = entry.refused.clone().filter(|_| entry.pod.is_none() && !runs)?;
            let is_over = entry.deletion.is_some() || entry.over.is_some();
            (!is_over).then(|| RefusedPod {
                uid: entry.uid.clone(),
                pod: nameplate(key, &entry.uid),
                refused,
            })
        };
        self.pods.iter().filter_map(never_read).collect()
    }
}

impl Entry {
    /// The pod as it is now, and whether that is different from before.
    fn new(before: Option<Self>, seen: SeenPod, now: Timestamp) -> (PodKey, Self, bool) {
        let SeenPod { key, uid, version, pod, deletion, over, api, .. } = seen;
        let Some(before) = before.filter(|before| before.uid == uid) else {
            let (pod, refused) = match pod {
                Ok(pod) => (Some(pod), None),
                Err(refused) => (None, Some(refused)),
            };
            let deletion = deletion.map(|grace| deletion_of(grace, now));
            let entry = Self { uid, version, pod, refused, deletion, over, api: Arc::new(api) };
            return (key, entry, true);
        };
        let known = before.deletion.filter(|known| deletion == Some(known.grace));
        let mut changed = known.is_none() && deletion.is_some();
        let deletion = known.or_else(|| deletion.map(|grace| deletion_of(grace, now)));
        let (pod, refused) = match pod {
            Ok(pod) if before.pod.as_ref() == Some(&pod) => (before.pod, None),
            Ok(pod) => {
                changed = true;
                (Some(pod), None)
            }
            Err(refused) => (before.pod, Some(refused)),
        };
        changed |= refused != before.refused;
        // What could not be read says nothing of its phase either.
        let over = over.or_else(|| before.over.clone().filter(|_| refused.is_some()));
        changed |= over != before.over;
        let api = if *before.api == api || refused.is_some() {
            before.api
        } else {
            changed = true;
            Arc::new(api)
        };
        (key, Self { uid, version, pod, refused, deletion, over, api }, changed)
    }
}

/// The grace period counts from the moment at which this agent sees the deletion, as for the kubelet: the API
/// server's clock may be another.
fn deletion_of(grace: Duration, now: Timestamp) -> Deletion {
    Deletion { since: now, grace, reason: DELETED.to_owned() }
}

/// A pod of which no more is known than which one it is.
fn nameplate(key: &PodKey, uid: &str) -> Arc<Pod> {
    let metadata = ObjectMeta {
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectMeta::default()
    };
    Arc::new(Pod::of_metadata(metadata))
}

#[cfg(test)]
mod tests;
