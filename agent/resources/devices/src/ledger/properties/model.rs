//! What the ledger is compared with: plain sets, kept by what was said and answered, and slow on purpose.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::super::super::types::{ContainerDemand, Device, Refusal};
use super::super::*;
use super::steps::{DEVICES, Listing, PODS, RESOURCES, Step};
use ContainerKind::{Init, Ordinary, Sidecar};

const GRACE: Duration = Duration::from_secs(300);

type Key = (String, String);

/// A plugin as its resource is known by what it said.
#[derive(Default)]
struct Plugin {
    generation: Option<u64>,
    away: Option<Instant>,
    listed: bool,
    /// The last list: healthy or not.
    list: BTreeMap<String, bool>,
    /// The list's word of health holds.
    known: bool,
}

/// How often a history met what it is for.
#[derive(Debug, Default)]
pub(super) struct Met(BTreeMap<&'static str, usize>);

impl Met {
    fn note(&mut self, what: &'static str) {
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

pub(super) struct World {
    ledger: Ledger,
    now: Instant,
    generations: u64,
    plugins: BTreeMap<String, Plugin>,
    /// By pod: container and resource, with ids and whether the plugin has answered.
    given: BTreeMap<String, BTreeMap<Key, (BTreeSet<String>, bool)>>,
    plans: Vec<(usize, PodPlan)>,
    /// With the model's word on whether it is void.
    open: Vec<(usize, Reservation, bool)>,
    pub met: Met,
}

/// Pods of every shape: what each of them asks for.
fn demand(pod: usize) -> PodDemand {
    let [gpu, nic, fpga] = RESOURCES;
    type Shape<'a> = (&'a str, ContainerKind, &'a [(&'a str, usize)]);
    let shape: &[Shape<'_>] = match pod {
        0 => &[("a", Ordinary, &[(gpu, 2)])],
        1 => {
            &[("i", Init, &[(gpu, 2)]), ("a", Ordinary, &[(gpu, 1), (nic, 1)]), ("b", Ordinary, &[(nic, 1)])]
        }
        2 => &[
            ("i", Init, &[(gpu, 1)]),
            ("s", Sidecar, &[(gpu, 1)]),
            ("j", Init, &[(gpu, 3)]),
            ("a", Ordinary, &[(gpu, 1)]),
            ("b", Ordinary, &[(gpu, 1), (fpga, 1)]),
        ],
        3 => &[("i", Init, &[(nic, 3)]), ("j", Init, &[(nic, 2)]), ("a", Ordinary, &[(nic, 1)])],
        _ => &[("a", Ordinary, &[(fpga, 1), (gpu, 1)]), ("b", Ordinary, &[(fpga, 2)])],
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

impl World {
    pub fn new() -> Self {
        Self {
            ledger: Ledger::new(GRACE),
            now: Instant::now(),
            generations: 0,
            plugins: BTreeMap::new(),
            given: BTreeMap::new(),
            plans: Vec::new(),
            open: Vec::new(),
            met: Met::default(),
        }
    }

    pub fn take(&mut self, step: &Step) {
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
            Step::Commit { reservation, silent } => {
                if let Some(open) = self.close(*reservation) {
                    self.commit(open, *silent);
                }
            }
            Step::Cancel { reservation } => {
                if let Some((_, reservation, _)) = self.close(*reservation) {
                    self.ledger.cancel(reservation);
                }
            }
            Step::Drop { reservation } => drop(self.close(*reservation)),
            Step::Release { pod } => {
                let uid = demand(*pod).uid;
                let had = self.given.remove(&uid).is_some();
                self.open.iter_mut().filter(|open| open.0 == *pod).for_each(|open| open.2 = true);
                assert_eq!(self.ledger.release(&uid), had);
            }
            Step::Surplus { pod } => self.surplus(*pod),
            Step::Retain { pods } => {
                let exists = |uid: &str| (0..PODS).any(|pod| demand(pod).uid == uid && pods >> pod & 1 == 1);
                let gone: Vec<_> = self.given.keys().filter(|uid| !exists(uid)).cloned().collect();
                gone.iter().for_each(|uid| drop(self.given.remove(uid)));
                assert_eq!(self.ledger.retain(exists), gone);
            }
            Step::Restart => self.restart(),
            Step::Damaged => self.damaged(),
        }
    }

    fn register(&mut self, resource: &str) {
        self.generations += 1;
        self.ledger.register(resource, self.generations);
        let plugin = self.plugins.entry(resource.to_owned()).or_default();
        plugin.generation = Some(self.generations);
        plugin.away = None;
        plugin.listed = false;
    }

    /// The generation that speaks; whether anybody has to listen.
    fn speaker(&self, resource: &str, stale: bool) -> (u64, bool) {
        let plugin = self.plugins.get(resource);
        let current = plugin.and_then(|p| p.generation);
        let generation = current.unwrap_or(1) - u64::from(stale && current.is_some());
        (generation, current == Some(generation) && plugin.is_some_and(|p| p.away.is_none()))
    }

    fn devices(&mut self, resource: &str, stale: bool, list: &[Listing]) {
        let (generation, heard) = self.speaker(resource, stale);
        let device = |line: &Listing| Device {
            id: id(line.id),
            health: if line.healthy { Health::Healthy } else { Health::Unhealthy },
            numa: (0..2).filter(|node| line.numa >> node & 1 == 1).collect(),
        };
        let before = self.healths(resource);
        let changes = self.ledger.devices(resource, generation, list.iter().map(device).collect());
        if heard {
            let plugin = self.plugins.get_mut(resource).unwrap();
            plugin.list.clear();
            for line in list.iter().filter(|line| line.id < DEVICES) {
                let healthy = plugin.list.entry(id(line.id)).or_insert(true);
                *healthy &= line.healthy;
            }
            (plugin.listed, plugin.known) = (true, true);
        }
        self.told(resource, &changes, &before);
    }

    fn stopped(&mut self, resource: &str, stale: bool) {
        let (generation, heard) = self.speaker(resource, stale);
        let before = self.healths(resource);
        let changes = self.ledger.stopped(resource, generation, self.now);
        assert_eq!(changes.changed, heard);
        if heard {
            let plugin = self.plugins.get_mut(resource).unwrap();
            (plugin.away, plugin.listed, plugin.known) = (Some(self.now), false, false);
        }
        self.told(resource, &changes, &before);
    }

    /// Every change of health is told, with who has the device, and nothing else.
    fn told(&self, resource: &str, changes: &Changes, before: &BTreeMap<String, Health>) {
        let after = self.healths(resource);
        let differ = after.iter().filter(|(id, health)| before[*id] != **health).map(|(id, _)| id);
        assert!(changes.health.iter().map(|change| &change.id).eq(differ));
        for change in &changes.health {
            assert_eq!((change.before, change.after), (before[&change.id], after[&change.id]));
            let owner = change.owner.as_ref().map(|(uid, _)| uid.clone());
            assert_eq!(owner, self.holders(resource, &change.id).pop());
        }
    }

    fn healths(&self, resource: &str) -> BTreeMap<String, Health> {
        let health =
            |id: &String| match self.plugins.get(resource).filter(|p| p.known).and_then(|p| p.list.get(id)) {
                None => Health::Unknown,
                Some(true) => Health::Healthy,
                Some(false) => Health::Unhealthy,
            };
        (0..DEVICES).map(id).map(|id| (id.clone(), health(&id))).collect()
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        let over = |plugin: &Plugin| plugin.away.is_some_and(|away| away + GRACE <= self.now);
        let gone: Vec<_> =
            self.plugins.iter().filter(|(_, p)| over(p)).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| drop(self.plugins.remove(name)));
        if !gone.is_empty() {
            self.met.note("dropped resource");
        }
        assert_eq!(self.ledger.expire(self.now), gone);
    }

    fn plan(&mut self, pod: usize, answers: &[Vec<usize>], keep: bool) {
        let demand = demand(pod);
        match self.ledger.plan(&demand) {
            Ok(mut plan) => {
                let answered = |c: &ContainerDemand, r: &String, n: usize| {
                    let key = (c.name.clone(), r.clone());
                    let given = self.given.get(&demand.uid).and_then(|pod| pod.get(&key));
                    given.is_some_and(|given| given.1 && given.0.len() >= n)
                };
                let all = demand.containers.iter().all(|c| c.wanted.iter().all(|(r, n)| answered(c, r, *n)));
                assert_eq!(plan.is_empty(), all);
                for answer in answers {
                    let Some(question) = plan.question() else { break };
                    self.met.note("question");
                    let (available, must) = (&question.available, &question.must_include);
                    assert!(available.is_sorted() && must.iter().all(|id| available.contains(id)));
                    assert!(must.len() < question.size && question.size < available.len());
                    plan.choose(&answer.iter().map(|n| id(*n)).collect::<Vec<_>>());
                }
                if keep {
                    self.plans.push((pod, plan));
                } else {
                    self.reserve(pod, plan);
                }
            }
            Err(refusal) => self.refused(pod, &refusal),
        }
    }

    fn refused(&mut self, pod: usize, refusal: &Refusal) {
        let plugin = self.plugins.get(refusal.resource());
        match refusal {
            Refusal::Unknown { resource } => {
                self.met.note("unknown");
                assert!(
                    plugin.is_none() && !(0..DEVICES).any(|n| !self.holders(resource, &id(n)).is_empty())
                );
            }
            Refusal::NotReady { .. } => {
                self.met.note("not ready");
                assert!(plugin.is_none_or(|p| p.away.is_some() || !p.listed));
            }
            Refusal::Insufficient { resource, wanted, free, capacity, unhealthy } => {
                self.met.note("insufficient");
                let plugin = plugin.unwrap();
                assert!(plugin.away.is_none() && plugin.listed && wanted > free);
                assert_eq!((*free, *capacity), (self.free(resource).len(), plugin.list.len()));
                assert_eq!(*unhealthy, plugin.list.values().filter(|healthy| !**healthy).count());
                let of = |c: &ContainerDemand| c.wanted.get(resource).copied().unwrap_or(0);
                assert!(*wanted <= demand(pod).containers.iter().map(of).sum());
            }
        }
    }

    fn reserve(&mut self, pod: usize, plan: PodPlan) {
        let before = (self.ledger.checkpoint(), self.ledger.resources());
        let free: BTreeMap<_, _> = RESOURCES.iter().map(|name| (*name, self.free(name))).collect();
        match self.ledger.reserve(plan) {
            Ok(reservation) => {
                let uid = demand(pod).uid;
                assert!(self.open.iter().all(|open| open.0 != pod || open.2), "two reservations of {uid}");
                for request in reservation.requests() {
                    let key = (request.container.clone(), request.resource.clone());
                    let own = self.given.get(&uid).and_then(|pod| pod.get(&key)).map(|given| given.0.clone());
                    let own = own.unwrap_or_default();
                    assert_eq!(
                        request.devices.len(),
                        wanted(pod, &key).max(own.len()),
                        "as many as asked for"
                    );
                    assert!(request.devices.is_superset(&own), "what it has it is given again");
                    let healthy = self.healths(&request.resource);
                    for id in request.devices.difference(&own) {
                        assert_eq!(healthy[id], Health::Healthy, "{id} is given anew");
                        let ours = self.given.get(&uid).is_some_and(|pod| {
                            pod.iter().any(|(key, given)| key.1 == request.resource && given.0.contains(id))
                        });
                        assert!(ours || free[request.resource.as_str()].contains(id), "{id} is another's");
                    }
                }
                self.open.push((pod, reservation, false));
            }
            Err(_) => self.met.note("conflict"),
        }
        assert_eq!((self.ledger.checkpoint(), self.ledger.resources()), before);
    }

    fn close(&mut self, which: usize) -> Option<(usize, Reservation, bool)> {
        (!self.open.is_empty()).then(|| self.open.remove(which % self.open.len()))
    }

    fn commit(&mut self, (pod, reservation, void): (usize, Reservation, bool), silent: u8) {
        let requests = reservation.requests();
        let (mut responses, mut given) = (BTreeMap::new(), BTreeMap::new());
        for (i, request) in requests.into_iter().enumerate() {
            let answers = silent >> (i % 8) & 1 == 0;
            let key = (request.container, request.resource);
            if answers {
                responses.insert(key.clone(), vec![i as u8]);
            } else {
                self.met.note("asked again");
            }
            given.insert(key, (request.devices, answers));
        }
        assert_eq!(self.ledger.commit(reservation, responses), !void);
        if void {
            return self.met.note("void");
        }
        self.met.note("committed");
        if !given.is_empty() {
            self.given.entry(demand(pod).uid).or_default().extend(given);
        }
    }

    fn surplus(&mut self, pod: usize) {
        let demand = demand(pod);
        let init = |key: &Key| demand.containers.iter().any(|c| c.name == key.0 && c.kind == Init);
        let Some(given) = self.given.get_mut(&demand.uid) else {
            return assert!(!self.ledger.release_surplus(&demand));
        };
        let running: BTreeSet<_> = given
            .iter()
            .filter(|(key, _)| !init(key))
            .flat_map(|(key, (ids, _))| ids.iter().map(move |id| (key.1.clone(), id.clone())))
            .collect();
        let before = given.len();
        given.retain(|key, (ids, _)| {
            !init(key) || ids.iter().all(|id| running.contains(&(key.1.clone(), id.clone())))
        });
        let dropped = given.len() < before;
        if given.is_empty() {
            self.given.remove(&demand.uid);
        }
        if dropped {
            self.met.note("surplus");
        }
        assert_eq!(self.ledger.release_surplus(&demand), dropped);
    }

    fn restart(&mut self) {
        if !self.given.is_empty() {
            self.met.note("restarted with allocations");
        }
        let bytes = self.ledger.checkpoint().to_bytes();
        self.ledger = Ledger::restore(GRACE, Checkpoint::parse(&bytes).unwrap(), self.now);
        assert_eq!(self.ledger.checkpoint().to_bytes(), bytes);
        for plugin in self.plugins.values_mut() {
            (plugin.generation, plugin.away) = (None, Some(self.now));
            (plugin.listed, plugin.known) = (false, false);
            // Only healthy ones are in the checkpoint.
            plugin.list.retain(|_, healthy| *healthy);
        }
        self.plans.clear();
        self.open.clear();
    }

    fn damaged(&mut self) {
        self.ledger = Ledger::new(GRACE);
        self.plugins.clear();
        self.plans.clear();
        self.open.clear();
        for pod in 0..PODS {
            let demand = demand(pod);
            let running = |key: &Key| demand.containers.iter().any(|c| c.name == key.0 && c.kind != Init);
            let Some(given) = self.given.get_mut(&demand.uid) else { continue };
            given.retain(|key, _| running(key));
            for (key, (ids, answered)) in given.iter_mut() {
                *answered = false;
                self.met.note("recovered");
                self.ledger.recover(&demand.uid, &key.0, &key.1, [(-1, ids.clone())].into());
            }
            if given.is_empty() {
                self.given.remove(&demand.uid);
            }
        }
    }

    /// Pods that have a device.
    fn holders(&self, resource: &str, id: &str) -> Vec<String> {
        let has = |pod: &BTreeMap<Key, (BTreeSet<String>, bool)>| {
            pod.iter().any(|(key, given)| key.1 == resource && given.0.contains(id))
        };
        self.given.iter().filter(|(_, pod)| has(pod)).map(|(uid, _)| uid.clone()).collect()
    }

    /// By device: pods that have it, or a reservation of it.
    fn taken(&self, resource: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut taken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut take = |uid: &str, id: &str| {
            taken.entry(id.to_owned()).or_default().insert(uid.to_owned());
        };
        for (uid, pod) in &self.given {
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
        let taken = self.taken(resource);
        let free = self.healths(resource).into_iter();
        let free = free.filter(|(id, health)| *health == Health::Healthy && !taken.contains_key(id));
        free.map(|(id, _)| id).collect()
    }

    /// Everything ends: all that the plugins list is free.
    pub fn end(mut self) {
        for (n, (_, reservation, _)) in self.open.drain(..).enumerate() {
            if n % 2 == 0 { self.ledger.cancel(reservation) } else { drop(reservation) }
        }
        for pod in 0..PODS {
            self.take(&Step::Release { pod });
        }
        for resource in RESOURCES {
            self.register(resource);
            let list: Vec<_> = (0..DEVICES).map(|id| Listing { id, healthy: true, numa: 1 }).collect();
            self.devices(resource, false, &list);
            assert_eq!(self.free(resource).len(), DEVICES);
        }
        self.check();
        assert!(self.ledger.checkpoint().entries.is_empty());
    }
}
