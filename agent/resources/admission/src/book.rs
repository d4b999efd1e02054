//! Who holds what and who waits, as a plain value: every change is followed by [`Book::settle`], which says who goes on
//! and who has to make way.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::amounts::{self, Amounts, amount, larger, wants};
use super::check::{Asked, Ground, check};
use super::growth::{self, NoGrowth};
use super::ports::{HostPort, host_ports};
use super::preempt::{self, Held};
use super::refusal::Refusal;
use nodewarden_eviction::Pressure;
use nodewarden_manifest::Pod;
use nodewarden_manifest::names::{EPHEMERAL_STORAGE, is_extended};

/// What of the node does not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub capacity: Amounts,
    /// Every pod counts as critical (`nodewarden.eviction.manifestPodsCritical`).
    pub manifests_critical: bool,
}

/// By the name of a resource, and whether a pod is an admitted one.
pub type Counter<'a> = dyn Fn(&str, &dyn Fn(&str) -> bool) -> Option<i64> + 'a;

/// What is decided on.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub node: &'a Node,
    pub pressure: &'a Pressure,
    /// How many devices of a resource admitted pods can have together, those that they have among them; it is told
    /// which pods those are. `None` as long as no plugin says.
    pub devices: &'a Counter<'a>,
}

/// Why a pod waits: the word and the sentence in its status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Why {
    /// The word in the pod's status, as of the first refusal.
    pub reason: String,
    /// All refusals.
    pub message: String,
    /// The resource that the node has too little of, where the first refusal is about one.
    pub short_of: Option<String>,
}

/// What follows a change. Pods by uid.
#[derive(Debug, Default)]
pub struct Settled {
    /// Hold what they asked for now.
    pub granted: Vec<String>,
    /// Wait for another reason than before.
    pub changed: Vec<String>,
    pub preempted: Vec<Preempted>,
}

impl Settled {
    fn victims(&self) -> usize {
        self.preempted.iter().map(|preempted| preempted.victims.len()).sum()
    }
}

/// A critical pod that others have to make way for, or would have to.
#[derive(Debug)]
pub struct Preempted {
    pub pod: Arc<Pod>,
    /// What is not there.
    pub refusals: Vec<Refusal>,
    /// Who has to go; nobody where it would not do.
    pub victims: Vec<Arc<Pod>>,
    /// What would still be missing.
    pub unable: Amounts,
    /// Everyone who holds something and is not on the way out, in the order in which they came.
    pub candidates: Vec<(Arc<Pod>, Amounts)>,
}

#[derive(Debug)]
struct Holder {
    pod: Arc<Pod>,
    held: Amounts,
    ports: Vec<HostPort>,
    arrival: u64,
    /// It is on its way out.
    leaving: bool,
}

#[derive(Debug)]
struct Waiting {
    pod: Arc<Pod>,
    wants: Amounts,
    ports: Vec<HostPort>,
    why: Why,
    /// What others give back is kept for it.
    reserves: bool,
    /// What no preemption could give it, as told.
    unable: Amounts,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Book {
    holders: BTreeMap<String, Holder>,
    /// By priority, then in the order in which they came.
    waiting: Vec<Waiting>,
    arrivals: u64,
}

impl Book {
    /// The pod runs: it holds what it asks for, whatever there is.
    pub fn enter(&mut self, pod: &Arc<Pod>) {
        self.waiting.retain(|own| own.pod.uid != pod.uid);
        if !self.holders.contains_key(&pod.uid) {
            self.hold(pod.clone(), wants(pod), host_ports(pod));
        }
    }

    /// The pod wants to start, unless it holds what it asks for or waits already.
    pub fn ask(&mut self, pod: &Arc<Pod>) {
        if self.holders.contains_key(&pod.uid) || self.why(&pod.uid).is_some() {
            return;
        }
        let place = self.waiting.partition_point(|own| own.pod.priority >= pod.priority);
        let waiting = Waiting {
            pod: pod.clone(),
            wants: wants(pod),
            ports: host_ports(pod),
            why: Why::default(),
            reserves: false,
            unable: Amounts::new(),
        };
        self.waiting.insert(place, waiting);
    }

    /// The pod is no more, or does not want to start any more.
    pub fn release(&mut self, uid: &str) {
        self.holders.remove(uid);
        self.waiting.retain(|own| own.pod.uid != uid);
    }

    /// The pod is on its way out, whoever sent it.
    pub fn leaving(&mut self, uid: &str) {
        if let Some(holder) = self.holders.get_mut(uid) {
            holder.leaving = true;
        }
    }

    /// Why the pod may not have other resources now, if it runs.
    pub fn no_growth(&self, pod: &Pod, node: &Node) -> Option<NoGrowth> {
        let own = self.holders.get(&pod.uid)?;
        let others = || self.holders.iter().filter(|(uid, _)| **uid != pod.uid).map(|(_, other)| &other.held);
        let kept = || self.waiting.iter().filter(|other| other.reserves).map(|other| &other.wants);
        let used = |name: &str| others().chain(kept()).map(|held| amount(held, name)).sum();
        let mut wants = wants(pod);
        // Devices are not among them (KEP-1287).
        wants.retain(|name, _| !is_extended(name));
        growth::refused(&own.held, &wants, |name| node.capacity.get(name).copied(), used)
    }

    /// The pod has other resources from now on; `under_way`: on the way to them it may use what it had, too. Devices
    /// are not among them (KEP-1287).
    pub fn resized(&mut self, pod: &Arc<Pod>, under_way: bool) {
        let mut wants = wants(pod);
        if let Some(holder) = self.holders.get_mut(&pod.uid) {
            wants.retain(|name, _| !is_extended(name));
            wants.extend(holder.held.iter().filter(|(n, _)| is_extended(n)).map(|(n, a)| (n.clone(), *a)));
            holder.held = if under_way { larger(&holder.held, &wants) } else { wants };
            holder.pod = pod.clone();
        } else if let Some(waiting) = self.waiting.iter_mut().find(|own| own.pod.uid == pod.uid) {
            waiting.wants = wants;
            waiting.pod = pod.clone();
        }
    }

    /// Its init containers have finished: devices that only they had are free.
    pub fn initialised(&mut self, uid: &str) {
        if let Some(holder) = self.holders.get_mut(uid) {
            let lasting = amounts::wants_initialised(&holder.pod);
            for (name, held) in holder.held.iter_mut().filter(|(name, _)| is_extended(name)) {
                *held = amount(&lasting, name);
            }
        }
    }

    pub fn holds(&self, uid: &str) -> bool {
        self.holders.contains_key(uid)
    }

    /// How much of a resource pods hold together.
    pub fn held(&self, resource: &str) -> i64 {
        self.holders.values().map(|own| amount(&own.held, resource)).sum()
    }

    /// Why the pod waits; `None` when it does not.
    pub fn why(&self, uid: &str) -> Option<&Why> {
        self.waiting.iter().find(|own| own.pod.uid == uid).map(|own| &own.why)
    }

    /// Those that wait, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (&Arc<Pod>, &Why)> {
        self.waiting.iter().map(|own| (&own.pod, &own.why))
    }

    /// Lets those go on that can, in order, and says why the others wait. What it decides, it has noted.
    pub fn settle(&mut self, facts: &Facts<'_>) -> Settled {
        let mut settled = Settled::default();
        loop {
            let before = (settled.granted.len(), settled.victims());
            self.pass(facts, &mut settled);
            // What one gets further back changes what those before it are told, and who makes way leaves room that
            // nobody keeps.
            if (settled.granted.len(), settled.victims()) == before {
                return settled;
            }
        }
    }

    fn pass(&mut self, facts: &Facts<'_>, settled: &mut Settled) {
        let mut index = 0;
        while index < self.waiting.len() {
            let mut refusals = self.refusals(index, facts, true);
            if refusals.is_empty() {
                let own = self.waiting.remove(index);
                settled.granted.push(own.pod.uid.clone());
                self.hold(own.pod, own.wants, own.ports);
                continue;
            }
            let critical = self.waiting[index].is_critical(facts);
            if critical {
                // What no other pod can give it comes first.
                refusals.sort_by_key(|refusal| refusal.missing().is_some());
            }
            let preempts = critical && refusals.iter().all(|refusal| refusal.missing().is_some());
            let more = if preempts { self.preempt(index, facts, settled) } else { String::new() };
            let own = &mut self.waiting[index];
            own.reserves &= preempts;
            let texts: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            let reason = refusals.first().map(Refusal::reason).unwrap_or_default();
            let short_of =
                refusals.first().and_then(Refusal::missing).map(|(resource, _)| resource.to_owned());
            if own.why.reason != reason {
                settled.changed.push(own.pod.uid.clone());
            }
            own.why = Why { reason, message: texts.join("; ") + &more, short_of };
            index += 1;
        }
    }

    /// Has others make way for the one that waits here, if that helps; what is to be said of it.
    fn preempt(&mut self, index: usize, facts: &Facts<'_>, settled: &mut Settled) -> String {
        let refusals = self.refusals(index, facts, false);
        let missing: Amounts =
            refusals.iter().filter_map(Refusal::missing).map(|(name, n)| (name.to_owned(), n)).collect();
        let chosen = {
            let staying = self.staying();
            let pods: Vec<Held<'_>> =
                staying.iter().map(|own| Held { pod: &own.pod, held: &own.held }).collect();
            let chosen = preempt::choose(&self.waiting[index].pod, &pods, &missing);
            chosen.map(|chosen| chosen.into_iter().map(|i| staying[i].pod.clone()).collect::<Vec<_>>())
        };
        let (victims, unable) = match chosen {
            Ok(victims) => (victims, Amounts::new()),
            Err(unable) => (Vec::new(), unable),
        };
        // With other numbers it is the same again.
        let known = unable.keys().eq(self.waiting[index].unable.keys());
        let news = !victims.is_empty() || !(unable.is_empty() || known);
        if news {
            let candidates = self.staying().iter().map(|own| (own.pod.clone(), own.held.clone())).collect();
            let (victims, unable) = (victims.clone(), unable.clone());
            let pod = self.waiting[index].pod.clone();
            settled.preempted.push(Preempted { pod, refusals, victims, unable, candidates });
        }
        for victim in &victims {
            self.leaving(&victim.uid);
        }
        let own = &mut self.waiting[index];
        own.reserves = unable.is_empty();
        own.unable = unable;
        if own.reserves {
            let leaving = self.holders.values().filter(|own| own.leaving);
            let names: Vec<String> =
                leaving.map(|own| format!("{}/{}", own.pod.namespace, own.pod.name)).collect();
            format!("; waits for pods that make way: {}", names.join(", "))
        } else {
            format!("; {}", unable_text(&own.unable))
        }
    }

    /// Those that are not on their way out, in the order in which they came.
    fn staying(&self) -> Vec<&Holder> {
        let mut staying: Vec<_> = self.holders.values().filter(|own| !own.leaving).collect();
        staying.sort_by_key(|own| own.arrival);
        staying
    }

    /// Why the one that waits here may not start; `now`, or when those are gone that are on their way out.
    fn refusals(&self, index: usize, facts: &Facts<'_>, now: bool) -> Vec<Refusal> {
        let own = &self.waiting[index];
        let before = || self.waiting[..index].iter().filter(|other| other.reserves);
        let held = |leaving: bool, name: &str| -> i64 {
            let holders = self.holders.values().filter(|own| leaving || !own.leaving);
            holders.map(|own| amount(&own.held, name)).sum()
        };
        let used = |name: &str| {
            let kept: i64 = before().map(|other| amount(&other.wants, name)).sum();
            let after = held(false, name) + kept;
            if now { after.max(held(true, name)) } else { after }
        };
        let capacity = |name: &str| match facts.node.capacity.get(name) {
            Some(capacity) => Some(*capacity),
            // What it has already, as a checkpoint has it, is there for it.
            None if is_extended(name) => (facts.devices)(name, &|uid| uid == own.pod.uid || self.holds(uid)),
            // Nobody asked how much there is.
            None if name == EPHEMERAL_STORAGE => None,
            None => Some(0),
        };
        let port_taken = |port: &HostPort| {
            let ports = self.holders.values().flat_map(|own| &own.ports);
            ports.chain(before().flat_map(|own| &own.ports)).any(|other| other.conflicts(port))
        };
        let ground = Ground {
            node_name: &facts.node.name,
            labels: &facts.node.labels,
            pressure: facts.pressure,
            capacity: &capacity,
            used: &used,
            port_taken: &port_taken,
        };
        let critical = own.is_critical(facts);
        check(&Asked { pod: &own.pod, wants: &own.wants, ports: &own.ports, critical }, &ground)
    }

    fn hold(&mut self, pod: Arc<Pod>, held: Amounts, ports: Vec<HostPort>) {
        self.arrivals += 1;
        let holder = Holder { held, ports, arrival: self.arrivals, leaving: false, pod: pod.clone() };
        self.holders.insert(pod.uid.clone(), holder);
    }
}

impl Waiting {
    fn is_critical(&self, facts: &Facts<'_>) -> bool {
        facts.node.manifests_critical || self.pod.is_critical()
    }
}

/// In the kubelet's words.
pub fn unable_text(unable: &Amounts) -> String {
    let each: String =
        unable.iter().map(|(name, missing)| format!("(res: {name}, q: {missing}), ")).collect();
    format!("preemption: no set of running pods found to reclaim resources: [{each}]")
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
