//! What is allocated, and the way back from a device to its pods.

use std::collections::{BTreeMap, HashMap};

use super::Allocation;

/// Devices of one resource in one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub container: String,
    pub resource: String,
    pub allocation: Allocation,
}

#[derive(Debug, Default)]
struct Pod {
    /// The how manieth it was to be given devices.
    number: u64,
    /// In the order in which its containers are given devices.
    held: Vec<Held>,
}

/// All that is allocated.
#[derive(Debug, Default)]
pub(super) struct Book {
    pods: BTreeMap<String, Pod>,
    /// How many pods have been given devices so far.
    count: u64,
    /// By resource and id: the uid of each container that has it. Those of one pod share a device at different times; two
    /// pods have one only by a checkpoint or a runtime that says so.
    holders: BTreeMap<String, HashMap<String, Vec<String>>>,
}

impl Book {
    pub fn of(&self, uid: &str) -> &[Held] {
        self.pods.get(uid).map_or(&[], |pod| pod.held.as_slice())
    }

    /// Uids of pods with devices.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Everything, with the pod's uid; pods in the order in which they were first given devices.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Held)> {
        let mut pods: Vec<_> = self.pods.iter().collect();
        pods.sort_by_key(|(_, pod)| pod.number);
        pods.into_iter().flat_map(|(uid, pod)| pod.held.iter().map(move |held| (uid.as_str(), held)))
    }

    pub fn get(&self, uid: &str, container: &str, resource: &str) -> Option<&Allocation> {
        let held = self.of(uid).iter().find(|h| h.container == container && h.resource == resource)?;
        Some(&held.allocation)
    }

    /// In the place of what the container had of the resource, if it had any.
    pub fn put(&mut self, uid: &str, container: &str, resource: &str, allocation: Allocation) {
        self.remove(uid, |held| held.container == container && held.resource == resource);
        for id in allocation.ids() {
            let devices = self.holders.entry(resource.to_owned()).or_default();
            devices.entry(id).or_default().push(uid.to_owned());
        }
        let held = Held { container: container.to_owned(), resource: resource.to_owned(), allocation };
        let pod = self.pods.entry(uid.to_owned()).or_insert_with(|| {
            self.count += 1;
            Pod { number: self.count, held: Vec::new() }
        });
        pod.held.push(held);
    }

    /// Puts a pod's containers in the order of these names; others stand before them.
    pub fn order(&mut self, uid: &str, containers: &[String]) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.held.sort_by_key(|held| containers.iter().position(|name| *name == held.container));
        }
    }

    /// `false` if there was nothing of this kind.
    pub fn remove(&mut self, uid: &str, which: impl Fn(&Held) -> bool) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        let gone: Vec<_> = pod.held.extract_if(.., |held| which(held)).collect();
        if pod.held.is_empty() {
            self.pods.remove(uid);
        }
        for held in &gone {
            let Some(devices) = self.holders.get_mut(&held.resource) else { continue };
            for id in held.allocation.ids() {
                let Some(uids) = devices.get_mut(&id) else { continue };
                if let Some(at) = uids.iter().position(|other| other == uid) {
                    uids.remove(at);
                }
                if uids.is_empty() {
                    devices.remove(&id);
                }
            }
            if devices.is_empty() {
                self.holders.remove(&held.resource);
            }
        }
        !gone.is_empty()
    }

    /// The ids of a resource that are somebody's, in no order.
    pub fn taken(&self, resource: &str) -> impl ExactSizeIterator<Item = &str> {
        self.holders.get(resource).map(HashMap::keys).unwrap_or_default().map(String::as_str)
    }

    pub fn is_taken(&self, resource: &str, id: &str) -> bool {
        self.holders.get(resource).is_some_and(|devices| devices.contains_key(id))
    }

    /// Somebody has devices of it.
    pub fn knows(&self, resource: &str) -> bool {
        self.holders.contains_key(resource)
    }

    /// The pod and container that a device was given to; of several containers of the pod the last.
    pub fn owner(&self, resource: &str, id: &str) -> Option<(String, String)> {
        let uid = self.holders.get(resource)?.get(id)?.last()?;
        let has = |held: &&Held| {
            held.resource == resource && held.allocation.devices.values().any(|ids| ids.contains(id))
        };
        let held = self.of(uid).iter().rev().find(has)?;
        Some((uid.clone(), held.container.clone()))
    }
}
