//! How things stand: for the node's status, PodResources, the command line, and for the checkpoint.

use std::collections::BTreeSet;
use std::time::Instant;

use super::super::checkpoint::{Checkpoint, PodDevicesEntry};
use super::Ledger;
use super::plugins::Listed;
use nodewarden_model::Health;

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceState {
    pub name: String,
    /// Devices that its plugin lists, or listed last while it is away.
    pub capacity: usize,
    /// Healthy ones, allocated or not; none while its plugin is away.
    pub allocatable: usize,
    /// Devices that pods have, also those that are no longer listed.
    pub allocated: usize,
    /// Since when its plugin is away.
    pub away_since: Option<Instant>,
    /// By id: the listed ones, and those that pods have.
    pub devices: Vec<DeviceState>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    pub id: String,
    pub health: Health,
    /// NUMA nodes; empty where none is known.
    pub numa: BTreeSet<i64>,
    /// Pod uid and container; of several containers of the pod the last.
    pub owner: Option<(String, String)>,
}

impl Ledger {
    /// Every resource that is registered or whose plugin may come back, by name.
    pub fn resources(&self) -> Vec<ResourceState> {
        let each = self.resources.iter().map(|(name, resource)| {
            let taken = self.book.taken(name);
            let allocated = taken.len();
            let ids: BTreeSet<&str> = resource.devices.keys().map(String::as_str).chain(taken).collect();
            let device = |id: &str| DeviceState {
                id: id.to_owned(),
                health: resource.health(id),
                numa: resource.devices.get(id).map(|device| device.numa.clone()).unwrap_or_default(),
                owner: self.book.owner(name, id),
            };
            ResourceState {
                name: name.clone(),
                capacity: resource.capacity(),
                allocatable: resource.healthy(),
                allocated,
                away_since: resource.away_since,
                devices: ids.into_iter().map(device).collect(),
            }
        });
        each.collect()
    }

    /// How many devices of a resource these pods can have together: what they have, and what is healthy and nobody's.
    /// `None` as long as no plugin says what there is.
    pub fn usable(&self, resource: &str, ours: impl Fn(&str) -> bool) -> Option<usize> {
        let state = self.resources.get(resource).filter(|state| state.away_since.is_none())?;
        let had = |id: &&str| self.book.owner(resource, id).is_some_and(|(uid, _)| ours(&uid));
        let had = self.book.taken(resource).filter(had).count();
        let healthy = state.devices.keys().filter(|id| state.health(id) == Health::Healthy);
        Some(had + healthy.filter(|id| !self.book.is_taken(resource, id)).count())
    }

    /// How many devices of a resource are healthy and nobody's, and how many are not healthy.
    pub fn spare(&self, resource: &str) -> Option<(usize, usize)> {
        let state = self.resources.get(resource)?;
        let healthy = |id: &&String| state.health(id) == Health::Healthy;
        let (well, ill): (Vec<_>, Vec<_>) = state.devices.keys().partition(healthy);
        Some((well.iter().filter(|id| !self.book.is_taken(resource, id)).count(), ill.len()))
    }

    /// What must outlive the agent; pods in the order in which they were first given devices. Reservations are not in it: no container has these devices yet.
    pub fn checkpoint(&self) -> Checkpoint {
        let entries = self.book.all().map(|(uid, held)| PodDevicesEntry {
            pod_uid: uid.to_owned(),
            container_name: held.container.clone(),
            resource_name: held.resource.clone(),
            device_ids: held.allocation.devices.clone(),
            alloc_resp: held.allocation.response.clone(),
        });
        let healthy = |(_, device): &(&String, &Listed)| device.health == Health::Healthy;
        let registered = self.resources.iter().map(|(name, resource)| {
            let ids = resource.devices.iter().filter(healthy).map(|(id, _)| id.clone());
            (name.clone(), ids.collect())
        });
        Checkpoint { entries: entries.collect(), registered: registered.collect() }
    }
}
