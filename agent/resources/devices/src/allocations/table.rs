//! All allocations, with an index from devices to pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::super::checkpoint::PodDevicesEntry;

#[derive(Debug, Default)]
struct Pod {
    /// Its number in the order in which pods were first given devices.
    number: u64,
    /// In the order in which its containers get devices.
    held: Vec<Arc<PodDevicesEntry>>,
}

/// All allocations.
#[derive(Debug, Default)]
pub(super) struct AllocationTable {
    pods: BTreeMap<String, Pod>,
    /// How many pods have been given devices so far.
    count: u64,
    /// By resource and id: the pod uid of each container that has the device. Containers of one pod use a
    /// shared device at different times; two pods have the same device only if a checkpoint or the runtime
    /// says so.
    holders: BTreeMap<String, HashMap<String, Vec<String>>>,
}

impl AllocationTable {
    /// The allocations of a pod.
    pub fn of_pod(&self, uid: &str) -> &[Arc<PodDevicesEntry>] {
        self.pods.get(uid).map_or(&[], |pod| pod.held.as_slice())
    }

    /// All allocations; pods in the order in which they were first given devices.
    pub fn all(&self) -> impl Iterator<Item = &Arc<PodDevicesEntry>> {
        let mut pods: Vec<_> = self.pods.values().collect();
        pods.sort_by_key(|pod| pod.number);
        pods.into_iter().flat_map(|pod| &pod.held)
    }

    /// The allocation of one resource to one container.
    pub fn get(&self, uid: &str, container: &str, resource: &str) -> Option<&PodDevicesEntry> {
        let is_it =
            |held: &&Arc<PodDevicesEntry>| held.container_name == container && held.resource_name == resource;
        self.of_pod(uid).iter().find(is_it).map(|held| &**held)
    }

    /// Sets the allocation of a resource to a container, in place of the one before.
    pub fn put(&mut self, entry: Arc<PodDevicesEntry>) {
        let uid = &entry.pod_uid;
        self.remove(uid, |held| {
            held.container_name == entry.container_name && held.resource_name == entry.resource_name
        });
        for id in entry.ids() {
            let devices = self.holders.entry(entry.resource_name.clone()).or_default();
            devices.entry(id).or_default().push(uid.clone());
        }
        let pod = self.pods.entry(uid.clone()).or_insert_with(|| {
            self.count += 1;
            Pod { number: self.count, held: Vec::new() }
        });
        pod.held.push(entry);
    }

    /// Sorts a pod's allocations by the order of these container names; other containers come first.
    pub fn order(&mut self, uid: &str, containers: &[String]) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.held.sort_by_key(|held| containers.iter().position(|name| *name == held.container_name));
        }
    }

    /// Removes the pod's allocations that `which` selects. Returns `false` if there were none.
    pub fn remove(&mut self, uid: &str, which: impl Fn(&PodDevicesEntry) -> bool) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        let gone: Vec<_> = pod.held.extract_if(.., |held| which(held)).collect();
        if pod.held.is_empty() {
            self.pods.remove(uid);
        }
        for held in &gone {
            let Some(devices) = self.holders.get_mut(&held.resource_name) else { continue };
            for id in held.ids() {
                let Some(uids) = devices.get_mut(&id) else { continue };
                if let Some(at) = uids.iter().position(|other| other == uid) {
                    uids.remove(at);
                }
                if uids.is_empty() {
                    devices.remove(&id);
                }
            }
            if devices.is_empty() {
                self.holders.remove(&held.resource_name);
            }
        }
        !gone.is_empty()
    }

    /// The allocated ids of a resource, in no particular order.
    pub fn allocated(&self, resource: &str) -> impl ExactSizeIterator<Item = &str> {
        self.holders.get(resource).map(HashMap::keys).unwrap_or_default().map(String::as_str)
    }

    /// Whether a container has the device.
    pub fn is_allocated(&self, resource: &str, id: &str) -> bool {
        self.holders.get(resource).is_some_and(|devices| devices.contains_key(id))
    }

    /// Whether any container has devices of the resource.
    pub fn has_resource(&self, resource: &str) -> bool {
        self.holders.contains_key(resource)
    }

    /// The pod uid and container name of a device; if several containers of the pod have it, the last one.
    pub fn owner(&self, resource: &str, id: &str) -> Option<(String, String)> {
        let uid = self.holders.get(resource)?.get(id)?.last()?;
        let has = |held: &&Arc<PodDevicesEntry>| {
            held.resource_name == resource && held.device_ids.values().any(|ids| ids.contains(id))
        };
        let held = self.of_pod(uid).iter().rev().find(has)?;
        Some((uid.clone(), held.container_name.clone()))
    }
}
