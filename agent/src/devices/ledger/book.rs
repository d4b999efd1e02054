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

/// All that is allocated.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// By uid, in the order in which the containers of a pod are given devices.
    pods: BTreeMap<String, Vec<Held>>,
    /// By resource and id: the uid of each container that has it. Those of one pod share a device at different times; two
    /// pods have one only by a checkpoint or a runtime that says so.
    holders: BTreeMap<String, HashMap<String, Vec<String>>>,
}

impl Book {
    pub fn of(&self, uid: &str) -> &[Held] {
        self.pods.get(uid).map_or(&[], Vec::as_slice)
    }

    /// Uids of pods with devices.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Everything, with the pod's uid.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Held)> {
        self.pods.iter().flat_map(|(uid, held)| held.iter().map(move |held| (uid.as_str(), held)))
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
        self.pods.entry(uid.to_owned()).or_default().push(held);
    }

    /// Puts a pod's containers in the order of these names; others stand before them.
    pub fn order(&mut self, uid: &str, containers: &[String]) {
        if let Some(held) = self.pods.get_mut(uid) {
            held.sort_by_key(|held| containers.iter().position(|name| *name == held.container));
        }
    }

    /// `false` if there was nothing of this kind.
    pub fn remove(&mut self, uid: &str, which: impl Fn(&Held) -> bool) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        let gone: Vec<_> = pod.extract_if(.., |held| which(held)).collect();
        if pod.is_empty() {
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
