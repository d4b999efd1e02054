//! The model that the allocations are compared with: plain sets, updated from the inputs and results, and
//! deliberately simple.

mod check;
mod plugins;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::super::super::types::{ContainerDemand, Device, Refusal};
use super::super::plugins::Changes;
use super::super::*;
use super::steps::{DEVICES, Listing, PODS, RESOURCES, Step};
use ContainerKind::{Init, Regular, Sidecar};

const GRACE: Duration = Duration::from_secs(300);

type Key = (String, String);

/// The state of a resource's plugin.
#[derive(Default)]
struct Plugin {
    generation: Option<u64>,
    away: Option<Instant>,
    listed: bool,
    /// The last list: whether each device is healthy.
    list: BTreeMap<String, bool>,
    /// The health in the last list is up to date.
    known: bool,
}

/// How often each kind of outcome occurred in a history.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<&'static str, usize>);

impl Coverage {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| *self.0.entry(what).or_default() += times);
    }

    pub fn all(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let of = |what| (what, self.0.get(what).copied().unwrap_or(0));
        [
            "committed",
            "void",
            "conflict",
            "unknown",
            "not ready",
            "insufficient",
            "reused",
            "surplus",
            "restarted with allocations",
            "recovered",
            "asked again",
            "question",
            "unlisted and held",
            "dropped resource",
        ]
        .into_iter()
        .map(of)
    }
}

pub(super) struct Model {
    allocations: DeviceAllocations,
    now: Instant,
    generations: u64,
    plugins: BTreeMap<String, Plugin>,
    /// Allocations by pod: container and resource, with ids and whether the plugin has answered.
    held: BTreeMap<String, BTreeMap<Key, (BTreeSet<String>, bool)>>,
    plans: Vec<(usize, PodPlan)>,
    /// Reservations of pods, and whether the model considers them void.
    open: Vec<(usize, Reservation, bool)>,
    pub coverage: Coverage,
}

/// The demand of each pod; the pods differ in their kinds of containers.
fn demand(pod: usize) -> PodDemand {
    let [gpu, nic, fpga] = RESOURCES;
    type Shape<'a> = (&'a str, ContainerKind, &'a [(&'a str, usize)]);
    let shape: &[Shape<'_>] = match pod {
        0 => &[("a", Regular, &[(gpu, 2)])],
        1 => &[("i", Init, &[(gpu, 2)]), ("a", Regular, &[(gpu, 1), (nic, 1)]), ("b", Regular, &[(nic, 1)])],
        2 => &[
            ("i", Init, &[(gpu, 1)]),
            ("s", Sidecar, &[(gpu, 1)]),
            ("j", Init, &[(gpu, 3)]),
            ("a", Regular, &[(gpu, 1)]),
            ("b", Regular, &[(gpu, 1), (fpga, 1)]),
        ],
        3 => &[("i", Init, &[(nic, 3)]), ("j", Init, &[(nic, 2)]), ("a", Regular, &[(nic, 1)])],
        _ => &[("a", Regular, &[(fpga, 1), (gpu, 1)]), ("b", Regular, &[(fpga, 2)])],
    };
    let containers = shape.iter().map(|(name, kind, wanted)| ContainerDemand {
        name: (*name).to_owned(),
        kind: *kind,
        wanted: wanted.iter().map(|(resource, n)| ((*resource).to_owned(), *n)).collect(),
    });
    PodDemand { uid: format!("pod{pod}"), containers: containers.collect() }
}

fn wanted(pod: usize, key: &Key) -> usize {
    demand(pod).containers.iter().find(|c| c.name == key.0).unwrap().wanted[&key.1]
}

fn id(number: usize) -> String {
    if number == DEVICES { String::new() } else { format!("d{number}") }
}

impl Model {
    pub fn new() -> Self {
        Self {
            allocations: DeviceAllocations::new(GRACE),
            now: Instant::now(),
            generations: 0,
            plugins: BTreeMap::new(),
            held: BTreeMap::new(),
            plans: Vec::new(),
            open: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Register { resources, list } => {
                for (_, resource) in RESOURCES.iter().enumerate().filter(|(n, _)| resources >> n & 1 == 1) {
                    self.register(resource);
                    list.iter().for_each(|list| self.devices(resource, false, list));
                }
            }
            Step::Devices { resource, stale, list } => self.devices(RESOURCES[*resource], *stale, list),
            Step::Stopped { resource, stale } => self.stopped(RESOURCES[*resource], *stale),
            Step::Wait { seconds } => self.wait(Duration::from_secs(*seconds)),
            Step::Plan { pod, answers, keep } => self.plan(*pod, answers, *keep),
            Step::Reserve { plan } => {
                if !self.plans.is_empty() {
                    let (pod, plan) = self.plans.remove(plan % self.plans.len());
                    self.reserve(pod, plan);
                }
            }
            Step::Commit { reservation, unanswered } => {
                if let Some(open) = self.close(*reservation) {
                    self.commit(open, *unanswered);
                }
            }
            Step::Cancel { reservation } => {
                if let Some((_, reservation, _)) = self.close(*reservation) {
                    self.allocations.cancel(reservation);
                }
            }
            Step::Drop { reservation } => drop(self.close(*reservation)),
            Step::Release { pod } => {
                let uid = demand(*pod).uid;
                let had = self.held.remove(&uid).is_some();
                self.open.iter_mut().filter(|open| open.0 == *pod).for_each(|open| open.2 = true);
                assert_eq!(self.allocations.release(&uid), had);
            }
            Step::Surplus { pod } => self.surplus(*pod),
            Step::Restart => self.restart(),
            Step::Damaged => self.damaged(),
        }
    }

    fn restart(&mut self) {
        if !self.held.is_empty() {
            self.coverage.count("restarted with allocations");
        }
        let bytes = self.allocations.checkpoint().to_bytes();
        self.allocations = DeviceAllocations::restore(GRACE, Checkpoint::parse(&bytes).unwrap(), self.now);
        assert_eq!(self.allocations.checkpoint().to_bytes(), bytes);
        for plugin in self.plugins.values_mut() {
            (plugin.generation, plugin.away) = (None, Some(self.now));
            (plugin.listed, plugin.known) = (false, false);
            // Only healthy devices are in the checkpoint.
            plugin.list.retain(|_, healthy| *healthy);
        }
        self.plans.clear();
        self.open.clear();
    }

    fn damaged(&mut self) {
        self.allocations = DeviceAllocations::new(GRACE);
        self.plugins.clear();
        self.plans.clear();
        self.open.clear();
        for pod in 0..PODS {
            let demand = demand(pod);
            let running = |key: &Key| demand.containers.iter().any(|c| c.name == key.0 && c.kind != Init);
            let Some(held) = self.held.get_mut(&demand.uid) else { continue };
            held.retain(|key, _| running(key));
            for (key, (ids, answered)) in held.iter_mut() {
                *answered = false;
                self.coverage.count("recovered");
                self.allocations.recover(&demand.uid, &key.0, &key.1, [(-1, ids.clone())].into());
            }
            if held.is_empty() {
                self.held.remove(&demand.uid);
            }
        }
    }

    /// Uids of pods that have a device.
    fn holders(&self, resource: &str, id: &str) -> Vec<String> {
        let has = |pod: &BTreeMap<Key, (BTreeSet<String>, bool)>| {
            pod.iter().any(|(key, held)| key.1 == resource && held.0.contains(id))
        };
        self.held.iter().filter(|(_, pod)| has(pod)).map(|(uid, _)| uid.clone()).collect()
    }

    /// By device: uids of pods that have it or a reservation of it.
    fn allocated(&self, resource: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut taken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut take = |uid: &str, id: &str| {
            taken.entry(id.to_owned()).or_default().insert(uid.to_owned());
        };
        for (uid, pod) in &self.held {
            for (_, (ids, _)) in pod.iter().filter(|(key, _)| key.1 == resource) {
                ids.iter().for_each(|id| take(uid, id));
            }
        }
        for (pod, reservation, _) in self.open.iter().filter(|open| !open.2) {
            for request in reservation.requests().iter().filter(|request| request.resource == resource) {
                request.devices.iter().for_each(|id| take(&format!("pod{pod}"), id));
            }
        }
        taken
    }

    fn free(&self, resource: &str) -> BTreeSet<String> {
        let allocated = self.allocated(resource);
        let free = self.healths(resource).into_iter();
        let free = free.filter(|(id, health)| *health == Health::Healthy && !allocated.contains_key(id));
        free.map(|(id, _)| id).collect()
    }

    /// Ends all reservations and pods: then all listed devices are free.
    pub fn end(mut self) {
        for (n, (_, reservation, _)) in self.open.drain(..).enumerate() {
            if n % 2 == 0 { self.allocations.cancel(reservation) } else { drop(reservation) }
        }
        for pod in 0..PODS {
            self.apply(&Step::Release { pod });
        }
        for resource in RESOURCES {
            self.register(resource);
            let list: Vec<_> = (0..DEVICES).map(|id| Listing { id, healthy: true, numa: 1 }).collect();
            self.devices(resource, false, &list);
            assert_eq!(self.free(resource).len(), DEVICES);
        }
        self.check();
        assert!(self.allocations.checkpoint().entries.is_empty());
    }
}
