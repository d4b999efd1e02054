//! The resources and their plugins: registered, listing devices, stopped, expired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use nodewarden_model::Health;

use super::super::types::Device;
use super::DeviceAllocations;

/// A plugin's entry for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub health: Health,
    pub numa: BTreeSet<i64>,
}

/// A plugin's list: entries by device id.
pub(super) type List = BTreeMap<String, Listed>;

/// One resource with the state of its plugin.
#[derive(Debug, Default)]
pub(super) struct Resource {
    /// Number of the current registration; `None` until there is one.
    generation: Option<u64>,
    /// Since when its plugin is not connected.
    pub away_since: Option<Instant>,
    /// The current registration has sent its list.
    listed: bool,
    /// The health in the last list is up to date: the plugin has not stopped since.
    known: bool,
    /// The last list, shared with the plans that were made from it.
    pub devices: Arc<List>,
    /// The ids that are healthy in it, shared with checkpoints.
    healthy_ids: Arc<[String]>,
}

/// What a plugin's list or end has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The resource has changed: capacity, allocatable, health, or whether its plugin is connected.
    pub changed: bool,
    /// Devices whose health has changed, by id; including free and new devices.
    pub health: Vec<HealthChange>,
}

/// A change of one device's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthChange {
    pub resource: String,
    pub id: String,
    pub before: Health,
    pub after: Health,
    /// Pod uid and container.
    pub owner: Option<(String, String)>,
}

impl Resource {
    /// A resource from a checkpoint, with the ids that were healthy. Their NUMA nodes are not in the
    /// checkpoint.
    pub fn remembered(ids: &[String], now: Instant) -> Self {
        let healthy = Listed { health: Health::Healthy, numa: BTreeSet::new() };
        let devices = ids.iter().map(|id| (id.clone(), healthy.clone())).collect();
        let mut new = Self { away_since: Some(now), ..Self::default() };
        new.replace(devices);
        new
    }

    fn registered(generation: u64) -> Self {
        Self { generation: Some(generation), ..Self::default() }
    }

    /// Replaces the list and returns the previous one.
    fn replace(&mut self, devices: List) -> Arc<List> {
        let healthy = devices.iter().filter(|(_, device)| device.health == Health::Healthy);
        self.healthy_ids = healthy.map(|(id, _)| id.clone()).collect();
        std::mem::replace(&mut self.devices, Arc::new(devices))
    }

    /// The ids that are healthy in the last list, sorted.
    pub fn healthy_ids(&self) -> &Arc<[String]> {
        &self.healthy_ids
    }

    /// Whether its plugin is connected and has sent its list, so that devices can be allocated.
    pub fn ready(&self) -> bool {
        self.away_since.is_none() && self.listed
    }

    pub fn health(&self, id: &str) -> Health {
        let listed = self.devices.get(id).filter(|_| self.known);
        listed.map_or(Health::Unknown, |device| device.health)
    }

    /// Number of listed devices, healthy or not; during the grace period also those of a plugin that has
    /// stopped.
    pub fn capacity(&self) -> usize {
        self.devices.len()
    }

    /// Number of healthy devices; 0 while their health is unknown.
    pub fn healthy(&self) -> usize {
        if self.known { self.healthy_ids.len() } else { 0 }
    }
}

impl DeviceAllocations {
    /// Records that a plugin has registered. `generation` grows with each registration: older registrations,
    /// and what they send, are ignored. The devices stay as they were until the new one has sent its list, so
    /// that none looks free or unhealthy in between; no device is allocated before that.
    pub fn register(&mut self, resource: &str, generation: u64) {
        let Some(known) = self.resources.get_mut(resource) else {
            self.resources.insert(resource.to_owned(), Resource::registered(generation));
            return;
        };
        if known.generation < Some(generation) {
            known.generation = Some(generation);
            known.away_since = None;
            known.listed = false;
        }
    }

    /// Replaces the list of a plugin's devices. An id that is listed twice counts once, with the worse health
    /// and the nodes of both; an empty id is ignored.
    pub fn devices(&mut self, resource: &str, generation: u64, devices: Vec<Device>) -> Changes {
        let Some(known) = self.current(resource, generation) else { return Changes::default() };
        let devices = list(devices);
        if known.ready() && known.known && *known.devices == devices {
            return Changes::default();
        }
        let (was_known, before) = (known.known, known.replace(devices));
        known.listed = true;
        known.known = true;
        self.changes(resource, was_known, &before)
    }

    /// Records that a plugin's stream has ended: the health of its devices is unknown.
    pub fn stopped(&mut self, resource: &str, generation: u64, now: Instant) -> Changes {
        let Some(known) = self.current(resource, generation) else { return Changes::default() };
        known.away_since = Some(now);
        let (was_known, before) = (known.known, known.devices.clone());
        known.listed = false;
        known.known = false;
        self.changes(resource, was_known, &before)
    }

    /// Removes resources whose plugin was not connected for the whole grace period, and returns their names.
    /// Pods keep their devices.
    pub fn expire(&mut self, now: Instant) -> Vec<String> {
        let grace = self.grace;
        let over = |resource: &Resource| {
            resource.away_since.is_some_and(|since| now.saturating_duration_since(since) >= grace)
        };
        self.resources.extract_if(.., |_, resource| over(resource)).map(|(name, _)| name).collect()
    }

    /// When [`DeviceAllocations::expire`] has something to do next.
    pub fn next_expiry(&self) -> Option<Instant> {
        let ends = self.resources.values().filter_map(|r| r.away_since?.checked_add(self.grace));
        ends.min()
    }

    /// The resource, if this is the current registration and it has not ended.
    fn current(&mut self, resource: &str, generation: u64) -> Option<&mut Resource> {
        let known = self.resources.get_mut(resource)?;
        (known.generation == Some(generation) && known.away_since.is_none()).then_some(known)
    }

    fn changes(&self, resource: &str, was_known: bool, before: &List) -> Changes {
        let Some(now) = self.resources.get(resource) else { return Changes::default() };
        let was = |id: &String| match before.get(id) {
            Some(device) if was_known => device.health,
            _ => Health::Unknown,
        };
        let ids: BTreeSet<&String> = before.keys().chain(now.devices.keys()).collect();
        let changed = ids.into_iter().filter(|id| was(id) != now.health(id));
        let health = changed.map(|id| HealthChange {
            resource: resource.to_owned(),
            id: id.clone(),
            before: was(id),
            after: now.health(id),
            owner: self.table.owner(resource, id),
        });
        Changes { changed: true, health: health.collect() }
    }
}

fn list(devices: Vec<Device>) -> List {
    let mut list = List::new();
    for device in devices.into_iter().filter(|device| !device.id.is_empty()) {
        let known =
            list.entry(device.id).or_insert_with(|| Listed { health: device.health, numa: BTreeSet::new() });
        if device.health != Health::Healthy {
            known.health = device.health;
        }
        known.numa.extend(device.numa);
    }
    list
}
