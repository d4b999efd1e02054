//! Which container has which device: a value without side effects. Plugins' lists come in, a pod's demand
//! becomes a plan, a plan becomes a reservation, and a reservation becomes an allocation once the plugins
//! have answered. The checkpoint is made from this value and restores it.
//!
//! ```text
//! plan(demand) ─► PodPlan ─question/choose─► reserve ─► Reservation ─requests─► commit │ cancel
//! ```
//!
//! A plan marks nothing; a reservation marks its devices until it is committed, cancelled or dropped. So
//! plugins can be called without holding a lock, and a failed call leaves no device behind.
//!
//! Rules, after the kubelet's (`ManagerImpl.Allocate`, `devicesToAllocate`):
//! - A container keeps its devices as long as its pod exists, whatever happens to the devices.
//! - A device that is newly allocated is healthy, listed by a connected plugin, and free.
//! - An init container passes its devices on to those that start after it; a sidecar and a regular container
//!   take theirs out of these.
//! - A pod gets all or nothing.

mod numa;
mod plan;
mod plugins;
#[cfg(test)]
mod properties;
mod reserve;
mod show;
#[cfg(test)]
mod speed;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_manifest::ContainerKind;
use nodewarden_model::{DevicesPerNuma, Health};

use self::plugins::Resource;
use self::reserve::OpenReservation;
use self::table::AllocationTable;
use super::checkpoint::{Checkpoint, PodDevicesEntry};
use super::types::{Allocation, PodDemand};

pub use plan::{PodPlan, Question};
pub use plugins::HealthChange;
pub use reserve::{Request, Reservation};
pub use show::ResourceState;

/// All devices of the plugins, and the allocations to pods.
#[derive(Debug)]
pub struct DeviceAllocations {
    /// How long a resource is kept after its plugin has stopped (kubelet: `endpointStopGracePeriod`).
    grace: Duration,
    resources: BTreeMap<String, Resource>,
    table: AllocationTable,
    open: Vec<OpenReservation>,
}

impl DeviceAllocations {
    /// Starts empty. A resource is kept for `grace` after its plugin has stopped.
    pub fn new(grace: Duration) -> Self {
        Self { grace, resources: BTreeMap::new(), table: AllocationTable::default(), open: Vec::new() }
    }

    /// Restores allocations and registered resources from a checkpoint. Their plugins count as stopped since
    /// `now`, and the health of their devices is unknown until they register again.
    pub fn restore(grace: Duration, checkpoint: Checkpoint, now: Instant) -> Self {
        let mut allocations = Self::new(grace);
        for (name, ids) in checkpoint.registered {
            allocations.resources.insert(name, Resource::remembered(&ids, now));
        }
        for entry in checkpoint.entries {
            allocations.table.put(entry);
        }
        allocations
    }

    /// A pod's allocations, by container and resource.
    pub fn of_pod(&self, uid: &str) -> BTreeMap<String, BTreeMap<String, Allocation>> {
        let mut all: BTreeMap<String, BTreeMap<String, Allocation>> = BTreeMap::new();
        for held in self.table.of_pod(uid) {
            let allocation =
                Allocation { devices: held.device_ids.clone(), response: held.alloc_resp.clone() };
            let container = all.entry(held.container_name.clone()).or_default();
            container.insert(held.resource_name.clone(), allocation);
        }
        all
    }

    /// Frees the devices of a pod that has ended, and voids its reservation. Returns `false` if it had no
    /// devices.
    pub fn release(&mut self, uid: &str) -> bool {
        self.open.retain(|open| open.uid != uid);
        self.table.remove(uid, |_| true)
    }

    /// Frees the devices that only init containers had, once the init containers of a running pod have
    /// finished. (The kubelet keeps them as long as the pod exists.) An init container that shares all its
    /// devices with a later one keeps them. If its pod has to start again, it gets what later containers
    /// have, and other devices in addition.
    ///
    /// Returns `false` if nothing was freed.
    pub fn release_surplus(&mut self, demand: &PodDemand) -> bool {
        let init =
            |name: &str| demand.containers.iter().any(|c| c.name == name && c.kind == ContainerKind::Init);
        let mut kept: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let held = self.table.of_pod(&demand.uid);
        for held in held.iter().filter(|held| !init(&held.container_name)) {
            kept.entry(&held.resource_name).or_default().extend(held.ids());
        }
        let surplus = held.iter().filter(|held| {
            let kept = kept.get(held.resource_name.as_str());
            init(&held.container_name) && !kept.is_some_and(|kept| held.ids().is_subset(kept))
        });
        let key = |held: &PodDevicesEntry| (held.container_name.clone(), held.resource_name.clone());
        let surplus: BTreeSet<_> = surplus.map(|held| key(held)).collect();
        self.table.remove(&demand.uid, |held| surplus.contains(&key(held)))
    }

    /// Records, after a damaged checkpoint, what a running container has according to the runtime; its plugin
    /// is asked again by the next plan. An allocation that is known with the plugin's answer stays as it is.
    /// Reservations of one of these devices become void, since the container runs with it.
    pub fn recover(&mut self, uid: &str, container: &str, resource: &str, devices: DevicesPerNuma) {
        let known = self.table.get(uid, container, resource);
        let ids: BTreeSet<&String> = devices.values().flatten().collect();
        if ids.is_empty()
            || known.is_some_and(|known| known.alloc_resp.is_some() || known.device_ids == devices)
        {
            return;
        }
        self.open.retain(|open| !open.marked(resource).any(|id| ids.contains(id)));
        self.table.put(Arc::new(PodDevicesEntry {
            pod_uid: uid.to_owned(),
            container_name: container.to_owned(),
            resource_name: resource.to_owned(),
            device_ids: devices,
            alloc_resp: None,
        }));
    }

    /// The health in the plugin's last list; unknown while the plugin is not connected, and for devices that
    /// it does not list.
    pub fn health(&self, resource: &str, id: &str) -> Health {
        self.resources.get(resource).map_or(Health::Unknown, |r| r.health(id))
    }
}
