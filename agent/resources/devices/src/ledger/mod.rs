//! Who has which device: a pure value. What plugins say comes in, a pod's demand becomes a plan, a plan a reservation,
//! and a reservation, once the plugins have answered, an allocation; the checkpoint is taken from here and starts it.
//!
//! ```text
//! plan(demand) ─► PodPlan ─question/choose─► reserve ─► Reservation ─requests─► commit │ cancel
//! ```
//!
//! Nothing is marked by a plan; a reservation marks its devices until it is committed, cancelled or dropped. So the calls
//! to plugins can be made with no lock held, and what becomes of them leaves no device behind.
//!
//! Rules, after the kubelet's (`ManagerImpl.Allocate`, `devicesToAllocate`):
//! - A container keeps what it was given for as long as its pod is there, whatever becomes of the devices.
//! - What is given anew is healthy, listed by a plugin that is there, and nobody's.
//! - An init container passes on what it had to those that start after it; a sidecar and an ordinary container take
//!   theirs out of that.
//! - A pod gets all or nothing.

mod book;
mod numa;
mod plan;
mod plugins;
#[cfg(test)]
mod properties;
mod reserve;
mod show;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use self::book::Book;
use self::plugins::Resource;
use self::reserve::Open;
use super::checkpoint::Checkpoint;
use super::types::{Allocation, PodDemand};
use nodewarden_manifest::ContainerKind;
use nodewarden_model::{DevicesPerNuma, Health};

pub use plan::{PodPlan, Question};
pub use plugins::{Changes, HealthChange};
pub use reserve::{Conflict, Request, Reservation};
pub use show::{DeviceState, ResourceState};

/// Plugins' devices, and whose they are.
#[derive(Debug)]
pub struct Ledger {
    /// How long a resource outlives its plugin (kubelet: `endpointStopGracePeriod`).
    grace: Duration,
    resources: BTreeMap<String, Resource>,
    book: Book,
    open: Vec<Open>,
}

impl Ledger {
    /// Nothing known. A resource outlives its plugin by `grace`.
    pub fn new(grace: Duration) -> Self {
        Self { grace, resources: BTreeMap::new(), book: Book::default(), open: Vec::new() }
    }

    /// From a checkpoint: allocations, and resources that were registered. Their plugins count as away since `now`, and
    /// the health of their devices is unknown until they are back.
    pub fn restore(grace: Duration, checkpoint: Checkpoint, now: Instant) -> Self {
        let mut ledger = Self::new(grace);
        for (name, ids) in checkpoint.registered {
            ledger.resources.insert(name, Resource::remembered(ids, now));
        }
        for entry in checkpoint.entries {
            let allocation = Allocation { devices: entry.device_ids, response: entry.alloc_resp };
            ledger.book.put(&entry.pod_uid, &entry.container_name, &entry.resource_name, allocation);
        }
        ledger
    }

    /// What a pod's containers have, by container and resource.
    pub fn allocations(&self, uid: &str) -> BTreeMap<String, BTreeMap<String, Allocation>> {
        let mut all: BTreeMap<String, BTreeMap<String, Allocation>> = BTreeMap::new();
        for held in self.book.of(uid) {
            let container = all.entry(held.container.clone()).or_default();
            container.insert(held.resource.clone(), held.allocation.clone());
        }
        all
    }

    /// The pod is gone: its devices are free again, and a reservation of it is void. `false` if it had no devices.
    pub fn release(&mut self, uid: &str) -> bool {
        self.open.retain(|open| open.uid != uid);
        self.book.remove(uid, |_| true)
    }

    /// The init containers of a running pod have finished: what only they had is free again. (The kubelet keeps it for as
    /// long as the pod is there.) An init container that shares all its devices with a later one keeps them. Should its
    /// pod have to start anew, it is given what later containers have, and others beside that.
    ///
    /// `false` if nothing was to be had.
    pub fn release_surplus(&mut self, demand: &PodDemand) -> bool {
        let init =
            |name: &str| demand.containers.iter().any(|c| c.name == name && c.kind == ContainerKind::Init);
        let mut kept: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let held = self.book.of(&demand.uid);
        for held in held.iter().filter(|held| !init(&held.container)) {
            kept.entry(&held.resource).or_default().extend(held.allocation.ids());
        }
        let surplus = held.iter().filter(|held| {
            let kept = kept.get(held.resource.as_str());
            init(&held.container) && !kept.is_some_and(|kept| held.allocation.ids().is_subset(kept))
        });
        let surplus: BTreeSet<_> =
            surplus.map(|held| (held.container.clone(), held.resource.clone())).collect();
        self.book
            .remove(&demand.uid, |held| surplus.contains(&(held.container.clone(), held.resource.clone())))
    }

    /// Frees the devices of pods that no longer exist: their uids. What is reserved stays so; whoever reserved it decides.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let gone: Vec<_> = self.book.pods().filter(|uid| !exists(uid)).map(str::to_owned).collect();
        for uid in &gone {
            self.book.remove(uid, |_| true);
        }
        gone
    }

    /// After a damaged checkpoint: what a running container has, by the runtime's word; its plugin is asked again by the
    /// next plan. What is known with the plugin's answer stays as it is. Reservations of one of these devices are void:
    /// the container runs with it.
    pub fn recover(&mut self, uid: &str, container: &str, resource: &str, devices: DevicesPerNuma) {
        let known = self.book.get(uid, container, resource);
        let ids: BTreeSet<&String> = devices.values().flatten().collect();
        if ids.is_empty() || known.is_some_and(|known| known.response.is_some() || known.devices == devices) {
            return;
        }
        self.open.retain(|open| !open.marked(resource).any(|id| ids.contains(id)));
        self.book.put(uid, container, resource, Allocation { devices, response: None });
    }

    /// Healthy or not by the plugin's last word; unknown while it is away, and for what it does not list.
    pub fn health(&self, resource: &str, id: &str) -> Health {
        self.resources.get(resource).map_or(Health::Unknown, |r| r.health(id))
    }
}
