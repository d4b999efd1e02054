//! What plugins say: registered, listing devices, gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::super::types::Device;
use super::Ledger;
use nodewarden_model::Health;

/// What a plugin says of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub health: Health,
    pub numa: BTreeSet<i64>,
}

/// Devices by id.
pub(super) type List = BTreeMap<String, Listed>;

/// One resource and its plugin.
#[derive(Debug)]
pub(super) struct Resource {
    /// Of the registration that counts; `None` until one is made.
    generation: Option<u64>,
    pub away_since: Option<Instant>,
    /// The registration that counts has sent its list.
    listed: bool,
    /// Nothing has come between the list and now that makes its word of health an old one.
    known: bool,
    /// The last list, shared with the plans made from it.
    pub devices: Arc<List>,
}

/// What became of a plugin's word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The resource is not as it was: capacity, allocatable, health or whether its plugin is there.
    pub changed: bool,
    /// Devices whose health is another, by id; those of no pod and those that are new among them.
    pub health: Vec<HealthChange>,
}

/// One device's health.
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
    /// From a checkpoint: which devices were healthy. Their nodes are not in it.
    pub fn remembered(ids: Vec<String>, now: Instant) -> Self {
        let healthy = Listed { health: Health::Healthy, numa: BTreeSet::new() };
        let devices = Arc::new(ids.into_iter().map(|id| (id, healthy.clone())).collect());
        Self { generation: None, away_since: Some(now), listed: false, known: false, devices }
    }

    fn registered(generation: u64) -> Self {
        let devices = Arc::default();
        Self { generation: Some(generation), away_since: None, listed: false, known: false, devices }
    }

    /// Its plugin is there and has said what it has: devices can be given.
    pub fn ready(&self) -> bool {
        self.away_since.is_none() && self.listed
    }

    pub fn health(&self, id: &str) -> Health {
        let listed = self.devices.get(id).filter(|_| self.known);
        listed.map_or(Health::Unknown, |device| device.health)
    }

    /// How many are listed, healthy or not: those of a plugin that is away too, as long as its grace lasts.
    pub fn capacity(&self) -> usize {
        self.devices.len()
    }

    pub fn healthy(&self) -> usize {
        let healthy = |device: &&Listed| device.health == Health::Healthy;
        if self.known { self.devices.values().filter(healthy).count() } else { 0 }
    }
}

impl Ledger {
    /// A plugin has registered. `generation` grows with each registration: an older one is passed over, and what older
    /// ones say from now on. The devices stay as they were until the new one has sent its list, so that none looks free
    /// or unhealthy in between; only then are any given.
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

    /// The whole list of a plugin's devices, in place of the one before. An id that is in it twice counts once, with the
    /// worse health and the nodes of both; an empty one not at all.
    pub fn devices(&mut self, resource: &str, generation: u64, devices: Vec<Device>) -> Changes {
        let Some(known) = self.current(resource, generation) else { return Changes::default() };
        let devices = list(devices);
        if known.ready() && known.known && *known.devices == devices {
            return Changes::default();
        }
        let (was_known, before) = (known.known, std::mem::replace(&mut known.devices, Arc::new(devices)));
        known.listed = true;
        known.known = true;
        self.changes(resource, was_known, &before)
    }

    /// A plugin's stream has ended: nobody knows how its devices are.
    pub fn stopped(&mut self, resource: &str, generation: u64, now: Instant) -> Changes {
        let Some(known) = self.current(resource, generation) else { return Changes::default() };
        known.away_since = Some(now);
        let (was_known, before) = (known.known, known.devices.clone());
        known.listed = false;
        known.known = false;
        self.changes(resource, was_known, &before)
    }

    /// Drops resources whose plugin is away for the whole grace: their names. What pods have of them stays theirs.
    pub fn expire(&mut self, now: Instant) -> Vec<String> {
        let grace = self.grace;
        let over = |resource: &Resource| {
            resource.away_since.is_some_and(|since| now.saturating_duration_since(since) >= grace)
        };
        self.resources.extract_if(.., |_, resource| over(resource)).map(|(name, _)| name).collect()
    }

    /// When [`Ledger::expire`] has something to do next.
    pub fn next_expiry(&self) -> Option<Instant> {
        let ends = self.resources.values().filter_map(|r| r.away_since?.checked_add(self.grace));
        ends.min()
    }

    /// The resource, if this registration counts and has not ended.
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
            owner: self.book.owner(resource, id),
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
