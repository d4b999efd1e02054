//! Which pods hold resources and which wait, as a plain value. Every change is followed by
//! [`AdmissionQueue::settle`], which admits waiting pods and chooses victims of preemption.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::amounts::{self, Amounts, amount, larger, wants};
use super::check::{NodeState, Request, check};
use super::growth::{self, NoGrowth};
use super::ports::{HostPort, host_ports};
use super::preempt::{self, Held};
use super::refusal::Refusal;
use super::toleration::NoExecuteTaint;
use nodewarden_eviction::Pressure;
use nodewarden_manifest::names::{EPHEMERAL_STORAGE, is_extended};
use nodewarden_manifest::{Pod, PodKind};
use nodewarden_model::PodReason;

/// What pods are compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints that keep pods from running, as the API server has them.
    pub taints: Vec<NoExecuteTaint>,
    /// The API server's labels of the node are not known yet: its pods are not rejected for them.
    pub labels_expected: bool,
    /// What pods can have together.
    pub capacity: Amounts,
    /// The machine is about to shut down.
    pub shutting_down: bool,
    /// Every pod counts as critical (`nodewarden.eviction.manifestPodsCritical`).
    pub manifests_critical: bool,
}

/// Counts devices by resource name; the second argument returns whether the pod with a uid is admitted.
pub type Counter<'a> = dyn Fn(&str, &dyn Fn(&str) -> bool) -> Option<i64> + 'a;

/// The inputs of a decision besides the queue.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The node.
    pub node: &'a Node,
    /// The node conditions that are true.
    pub pressure: &'a Pressure,
    /// How many devices of a resource admitted pods can have together, including those that they have. `None`
    /// as long as no plugin has registered the resource.
    pub devices: &'a Counter<'a>,
}

/// Why a pod waits: reason and message of its status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Why {
    /// `status.reason`, as of the first refusal; `None` before the pod is checked.
    pub reason: Option<PodReason>,
    /// `status.message`, with all refusals.
    pub message: String,
    /// What its victims release is reserved for it: it starts when they have ended.
    pub awaits_victims: bool,
}

impl Why {
    /// Why a pod that does not wait for resources is rejected; `None` if it starts as soon as the pods have
    /// ended that are preempted for it.
    pub fn rejects(&self) -> Option<&PodReason> {
        self.reason.as_ref().filter(|_| !self.awaits_victims)
    }
}

/// The consequences of a change. Pods by uid.
#[derive(Debug, Default)]
pub struct Settled {
    /// Pods that were admitted.
    pub granted: Vec<String>,
    /// Pods that wait for another reason than before.
    pub changed: Vec<String>,
    pub preempted: Vec<Preempted>,
}

impl Settled {
    fn victims(&self) -> usize {
        self.preempted.iter().map(|preempted| preempted.victims.len()).sum()
    }
}

/// A preemption for a critical pod, or the failure to find victims.
#[derive(Debug)]
pub struct Preempted {
    pub pod: Arc<Pod>,
    /// What is missing.
    pub refusals: Vec<Refusal>,
    /// The victims; empty if preemption would not be enough.
    pub victims: Vec<Arc<Pod>>,
    /// What would still be missing.
    pub unable: Amounts,
    /// All pods that hold resources and are not terminating, in order of arrival.
    pub candidates: Vec<(Arc<Pod>, Amounts)>,
}

#[derive(Debug)]
struct Holder {
    pod: Arc<Pod>,
    held: Amounts,
    ports: Vec<HostPort>,
    arrival: u64,
    /// It is terminating.
    leaving: bool,
}

#[derive(Debug)]
struct Waiting {
    pod: Arc<Pod>,
    wants: Amounts,
    ports: Vec<HostPort>,
    why: Why,
    /// What its victims release is reserved for it.
    has_reservation: bool,
    /// What preemption could not provide, as last reported.
    unable: Amounts,
}

/// Pods that hold resources and pods that wait.
#[derive(Debug, Default)]
pub struct AdmissionQueue {
    holders: BTreeMap<String, Holder>,
    /// By priority, then in order of arrival.
    waiting: Vec<Waiting>,
    arrivals: u64,
}

impl AdmissionQueue {
    /// Adds a running pod: it holds its requests, whatever is available.
    pub fn enter(&mut self, pod: &Arc<Pod>) {
        self.waiting.retain(|own| own.pod.uid != pod.uid);
        if !self.holders.contains_key(&pod.uid) {
            self.hold(pod.clone(), wants(pod), host_ports(pod));
        }
    }

    /// Queues the pod, unless it already holds its requests or waits.
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
            has_reservation: false,
            unable: Amounts::new(),
        };
        self.waiting.insert(place, waiting);
    }

    /// Removes the pod: it has ended, or will not start.
    pub fn release(&mut self, uid: &str) {
        self.holders.remove(uid);
        self.waiting.retain(|own| own.pod.uid != uid);
    }

    /// Marks the pod as terminating, for any reason.
    pub fn leaving(&mut self, uid: &str) {
        if let Some(holder) = self.holders.get_mut(uid) {
            holder.leaving = true;
        }
    }

    /// Why a running pod may not have the resources of `pod` now; `None` if it may.
    pub fn no_growth(&self, pod: &Pod, node: &Node) -> Option<NoGrowth> {
        let own = self.holders.get(&pod.uid)?;
        let others = || self.holders.iter().filter(|(uid, _)| **uid != pod.uid).map(|(_, other)| &other.held);
        let kept = || self.waiting.iter().filter(|other| other.has_reservation).map(|other| &other.wants);
        let used = |name: &str| others().chain(kept()).map(|held| amount(held, name)).sum();
        let mut wants = wants(pod);
        // Devices are not among them (KEP-1287).
        wants.retain(|name, _| !is_extended(name));
        growth::refused(&own.held, &wants, |name| node.capacity.get(name).copied(), used)
    }

    /// Changes what the pod holds. With `under_way`, the resize has not ended and the larger of old and new
    /// is held. Devices do not change (KEP-1287).
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

    /// Replaces the pod by one that asks for the same.
    pub fn updated(&mut self, pod: &Arc<Pod>) {
        if let Some(holder) = self.holders.get_mut(&pod.uid) {
            holder.pod = pod.clone();
        } else if let Some(waiting) = self.waiting.iter_mut().find(|own| own.pod.uid == pod.uid) {
            waiting.pod = pod.clone();
        }
    }

    /// The init containers of the pod have finished: devices that only they had are free.
    pub fn initialised(&mut self, uid: &str) {
        if let Some(holder) = self.holders.get_mut(uid) {
            let lasting = amounts::wants_initialised(&holder.pod);
            for (name, held) in holder.held.iter_mut().filter(|(name, _)| is_extended(name)) {
                *held = amount(&lasting, name);
            }
        }
    }

    /// Whether the pod is admitted.
    pub fn holds(&self, uid: &str) -> bool {
        self.holders.contains_key(uid)
    }

    /// How much of a resource pods hold together.
    pub fn held(&self, resource: &str) -> i64 {
        self.holders.values().map(|own| amount(&own.held, resource)).sum()
    }

    /// Why the pod waits; `None` if it does not.
    pub fn why(&self, uid: &str) -> Option<&Why> {
        self.waiting.iter().find(|own| own.pod.uid == uid).map(|own| &own.why)
    }

    /// The waiting pods, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (&Arc<Pod>, &Why)> {
        self.waiting.iter().map(|own| (&own.pod, &own.why))
    }

    /// Admits waiting pods that fit, in order, and updates why the others wait. The decisions are applied to
    /// the queue.
    pub fn settle(&mut self, facts: &Facts<'_>) -> Settled {
        let mut settled = Settled::default();
        loop {
            let before = (settled.granted.len(), settled.victims());
            self.pass(facts, &mut settled);
            // An admission further back changes the messages of pods before it, and victims release resources
            // that are reserved for no pod.
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
                // Reasons that preemption cannot remove come first.
                refusals.sort_by_key(|refusal| refusal.missing().is_some());
            }
            let preempts = critical && refusals.iter().all(|refusal| refusal.missing().is_some());
            let more = if preempts { self.preempt(index, facts, settled) } else { String::new() };
            let own = &mut self.waiting[index];
            own.has_reservation &= preempts;
            let texts: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            let reason = refusals.first().map(Refusal::reason);
            if own.why.reason != reason {
                settled.changed.push(own.pod.uid.clone());
            }
            own.why = Why { reason, message: texts.join("; ") + &more, awaits_victims: own.has_reservation };
            index += 1;
        }
    }

    /// Chooses victims for the waiting pod at `index`, if that is enough for it. Returns text for its
    /// message.
    fn preempt(&mut self, index: usize, facts: &Facts<'_>, settled: &mut Settled) -> String {
        let refusals = self.refusals(index, facts, false);
        let missing: Amounts =
            refusals.iter().filter_map(Refusal::missing).map(|(name, n)| (name.to_owned(), n)).collect();
        let chosen = {
            let staying = self.staying();
            let pods: Vec<Held<'_>> =
                staying.iter().map(|own| Held { pod: &own.pod, held: &own.held }).collect();
            let chosen = preempt::select_victims(&self.waiting[index].pod, &pods, &missing);
            chosen.map(|chosen| chosen.into_iter().map(|i| staying[i].pod.clone()).collect::<Vec<_>>())
        };
        let (victims, unable) = match chosen {
            Ok(victims) => (victims, Amounts::new()),
            Err(unable) => (Vec::new(), unable),
        };
        // A failure with the same resources but other amounts is not reported again.
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
        own.has_reservation = unable.is_empty();
        own.unable = unable;
        if own.has_reservation {
            let leaving = self.holders.values().filter(|own| own.leaving);
            let names: Vec<String> =
                leaving.map(|own| format!("{}/{}", own.pod.namespace, own.pod.name)).collect();
            format!("; waits for preempted pods: {}", names.join(", "))
        } else {
            format!("; {}", unable_text(&own.unable))
        }
    }

    /// The pods that are not terminating, in order of arrival.
    fn staying(&self) -> Vec<&Holder> {
        let mut staying: Vec<_> = self.holders.values().filter(|own| !own.leaving).collect();
        staying.sort_by_key(|own| own.arrival);
        staying
    }

    /// Why the waiting pod at `index` may not start `now`, or else after all terminating pods have ended.
    fn refusals(&self, index: usize, facts: &Facts<'_>, now: bool) -> Vec<Refusal> {
        let own = &self.waiting[index];
        let before = || self.waiting[..index].iter().filter(|other| other.has_reservation);
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
            // Devices that it already has, according to a checkpoint, are available to it.
            None if is_extended(name) => (facts.devices)(name, &|uid| uid == own.pod.uid || self.holds(uid)),
            // The capacity is not known, so it is not checked.
            None if name == EPHEMERAL_STORAGE => None,
            None => Some(0),
        };
        let port_taken = |port: &HostPort| {
            let ports = self.holders.values().flat_map(|own| &own.ports);
            ports.chain(before().flat_map(|own| &own.ports)).any(|other| other.conflicts(port))
        };
        let node = NodeState {
            node_name: &facts.node.name,
            labels: (!(facts.node.labels_expected && own.pod.kind == PodKind::Api))
                .then_some(&facts.node.labels),
            taints: &facts.node.taints,
            shutting_down: facts.node.shutting_down,
            pressure: facts.pressure,
            capacity: &capacity,
            used: &used,
            port_taken: &port_taken,
        };
        let critical = own.is_critical(facts);
        check(&Request { pod: &own.pod, wants: &own.wants, ports: &own.ports, critical }, &node)
    }

    fn hold(&mut self, pod: Arc<Pod>, held: Amounts, ports: Vec<HostPort>) {
        self.arrivals += 1;
        let holder = Holder { held, ports, arrival: self.arrivals, leaving: false, pod: pod.clone() };
        self.holders.insert(pod.uid.clone(), holder);
    }
}

impl Waiting {
    fn is_critical(&self, facts: &Facts<'_>) -> bool {
        let by_setting = facts.node.manifests_critical && self.pod.kind == PodKind::Static;
        by_setting || self.pod.is_critical()
    }
}

/// Message of a failed preemption, in the kubelet's words.
pub fn unable_text(unable: &Amounts) -> String {
    let each: String =
        unable.iter().map(|(name, missing)| format!("(res: {name}, q: {missing}), ")).collect();
    format!("preemption: no set of running pods found to reclaim resources: [{each}]")
}

#[cfg(test)]
mod tests;
