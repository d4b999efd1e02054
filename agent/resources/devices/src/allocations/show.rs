//! The current state: for the node's status, PodResources, the command line and the checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use nodewarden_model::Health;

use super::super::checkpoint::Checkpoint;
use super::DeviceAllocations;

/// The state of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceState {
    pub name: String,
    /// Number of devices that its plugin lists, or listed last if it is not connected.
    pub capacity: usize,
    /// Number of healthy devices, allocated or not; 0 while its plugin is not connected.
    pub allocatable: usize,
    /// Number of devices that pods have, including those that are no longer listed.
    pub allocated: usize,
    /// Since when its plugin is not connected.
    pub away_since: Option<Instant>,
    /// All listed devices and those that pods have, by id.
    pub devices: Vec<DeviceState>,
}

/// The state of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    pub id: String,
    pub health: Health,
    /// NUMA nodes; empty if none is known.
    pub numa: BTreeSet<i64>,
    /// Pod uid and container name; if several containers of the pod have it, the last one.
    pub owner: Option<(String, String)>,
}

impl DeviceAllocations {
    /// All resources that are registered or whose plugin may still register again, by name.
    pub fn resources(&self) -> Vec<ResourceState> {
        let each = self.resources.iter().map(|(name, resource)| {
            let taken = self.table.allocated(name);
            let allocated = taken.len();
            let ids: BTreeSet<&str> = resource.devices.keys().map(String::as_str).chain(taken).collect();
            let device = |id: &str| DeviceState {
                id: id.to_owned(),
                health: resource.health(id),
                numa: resource.devices.get(id).map(|device| device.numa.clone()).unwrap_or_default(),
                owner: self.table.owner(name, id),
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

    /// For each resource its number of devices and of healthy ones. As in the kubelet (`GetCapacity`), one
    /// whose plugin is away keeps its capacity and has no healthy devices.
    pub fn amounts(&self) -> BTreeMap<String, (usize, usize)> {
        let each = self.resources.iter();
        each.map(|(name, resource)| (name.clone(), (resource.capacity(), resource.healthy()))).collect()
    }

    /// How many devices of a resource these pods can have together: what they have, and what is healthy and
    /// free. `None` while its plugin is not connected.
    pub fn usable(&self, resource: &str, ours: impl Fn(&str) -> bool) -> Option<usize> {
        let state = self.resources.get(resource).filter(|state| state.away_since.is_none())?;
        let had = |id: &&str| self.table.owner(resource, id).is_some_and(|(uid, _)| ours(&uid));
        let had = self.table.allocated(resource).filter(had).count();
        let healthy = state.devices.keys().filter(|id| state.health(id) == Health::Healthy);
        Some(had + healthy.filter(|id| !self.table.is_allocated(resource, id)).count())
    }

    /// How many devices of a resource are healthy and free, and how many are not healthy.
    pub fn spare(&self, resource: &str) -> Option<(usize, usize)> {
        let state = self.resources.get(resource)?;
        let healthy = |id: &&String| state.health(id) == Health::Healthy;
        let (healthy, unhealthy): (Vec<_>, Vec<_>) = state.devices.keys().partition(healthy);
        Some((healthy.iter().filter(|id| !self.table.is_allocated(resource, id)).count(), unhealthy.len()))
    }

    /// What must survive a restart of the agent; pods in the order in which they were first given devices.
    /// Reservations are not in it: no container has their devices yet.
    pub fn checkpoint(&self) -> Checkpoint {
        let resources = self.resources.iter();
        let registered = resources.map(|(name, resource)| (name.clone(), resource.healthy_ids().clone()));
        Checkpoint { entries: self.table.all().cloned().collect(), registered: registered.collect() }
    }
}
