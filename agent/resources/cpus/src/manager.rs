//! Which CPUs containers have, as a value: nothing is read or written, and no operation waits.

mod allocate;
mod hints;
mod pod_level;
mod provider;
mod requests;
mod restore;

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::CpuTopology;

use crate::{Policy, Settings};

pub use restore::Finding;

/// The CPUs that containers and pods have for themselves. Containers of one pod may have CPUs in common: an
/// init container's CPUs are used again by those that start after its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignments {
    /// Pod uid, container name, CPUs.
    pub containers: BTreeMap<String, BTreeMap<String, CpuSet>>,
    /// Pod uid, CPUs: of pods that got them as a whole. The CPUs of their containers are among them.
    pub pods: BTreeMap<String, CpuSet>,
}

impl Assignments {
    /// The CPUs of a container, if it has some for itself.
    pub fn get(&self, pod_uid: &str, container: &str) -> Option<&CpuSet> {
        self.containers.get(pod_uid)?.get(container)
    }

    /// Every CPU that is assigned.
    pub fn all(&self) -> CpuSet {
        let mut all = CpuSet::default();
        self.containers
            .values()
            .flat_map(BTreeMap::values)
            .chain(self.pods.values())
            .for_each(|cpus| all.add(cpus));
        all
    }

    fn set(&mut self, pod_uid: &str, container: &str, cpus: CpuSet) {
        self.containers.entry(pod_uid.to_owned()).or_default().insert(container.to_owned(), cpus);
    }

    fn remove(&mut self, pod_uid: &str, container: &str) {
        let Some(containers) = self.containers.get_mut(pod_uid) else { return };
        containers.remove(container);
        if containers.is_empty() {
            self.containers.remove(pod_uid);
            self.pods.remove(pod_uid);
        }
    }
}

/// The CPU manager (`cpumanager.staticPolicy`, or `nonePolicy`).
///
/// Only assignments are kept; the CPUs that all other containers share follow from them. So what is removed
/// is given back whole, whatever happened before.
#[derive(Debug, Clone)]
pub struct CpuManager {
    topology: CpuTopology,
    settings: Settings,
    /// The reserved CPUs and the others of their cores.
    reserved_cores: CpuSet,
    assignments: Assignments,
    /// The pod whose containers were allocated last, with the CPUs of its init containers that can be used
    /// again.
    reusable: (String, CpuSet),
}

impl CpuManager {
    /// A manager that has assigned nothing.
    pub fn new(topology: CpuTopology, settings: Settings) -> Self {
        let reserved_cores = topology.whole_cores(&settings.reserved);
        Self {
            topology,
            settings,
            reserved_cores,
            assignments: Assignments::default(),
            reusable: Default::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The CPUs that are online.
    pub fn topology(&self) -> &CpuTopology {
        &self.topology
    }

    /// What is assigned.
    pub fn assignments(&self) -> &Assignments {
        &self.assignments
    }

    /// The CPUs of containers that have none for themselves. Never empty unless no CPU is online: if
    /// everything but the reserved CPUs is assigned, these.
    pub fn shared(&self) -> CpuSet {
        let shared = self.unassigned();
        if !shared.is_empty() {
            return shared;
        }
        match self.settings.reserved.intersection(self.topology.all()) {
            reserved if reserved.is_empty() => self.topology.all().clone(),
            reserved => reserved,
        }
    }

    /// The CPUs of a container: its own, or the shared ones.
    pub fn cpus_of(&self, pod_uid: &str, container: &str) -> CpuSet {
        self.assignments.get(pod_uid, container).cloned().unwrap_or_else(|| self.shared())
    }

    /// Takes back what a container has (`RemoveContainer`). Of a pod that got CPUs as a whole they are taken
    /// back with its last container. Nothing happens if it has none.
    pub fn remove(&mut self, pod_uid: &str, container: &str) {
        let before = self.assignments.all();
        self.assignments.remove(pod_uid, container);
        let released = before.difference(&self.assignments.all());
        self.reusable.1 = self.reusable.1.difference(&released);
    }

    /// Takes back what every container has that `keep` does not name, by pod uid and container name.
    pub fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        let names = self.assignments.containers.iter();
        let all = names
            .flat_map(|(pod, containers)| containers.keys().map(move |name| (pod.clone(), name.clone())));
        let gone: Vec<_> = all.filter(|(pod, name)| !keep(pod, name)).collect();
        gone.iter().for_each(|(pod, name)| self.remove(pod, name));
    }

    /// Whether no CPU belongs to two pods, none is reserved, cores are whole if they have to be, and what a
    /// pod has as a whole contains what its containers have.
    #[cfg(test)]
    pub(crate) fn is_consistent(&self) -> bool {
        let mut taken = CpuSet::default();
        let mut own_cpus_apart = self.assignments.containers.iter().map(|(uid, containers)| {
            let mut own = CpuSet::default();
            containers.values().for_each(|cpus| own.add(cpus));
            let whole = self.assignments.pods.get(uid);
            let parts_fit = whole.is_none_or(|whole| own.is_subset(whole));
            own.add(whole.unwrap_or(&CpuSet::default()));
            let apart = own.is_disjoint(&taken);
            taken.add(&own);
            apart && parts_fit
        });
        let cores = |cpus: &CpuSet| {
            !self.settings.options.full_cores || self.topology.only_whole_cores(cpus) == *cpus
        };
        let mut alone =
            self.assignments.containers.iter().filter(|(uid, _)| !self.assignments.pods.contains_key(*uid));
        own_cpus_apart.all(|fits| fits)
            && alone.all(|(_, containers)| containers.values().all(cores))
            && self.assignments.all().is_disjoint(&self.settings.reserved)
    }

    /// The same with other assignments or another topology, for comparisons with a kubelet's states.
    #[cfg(test)]
    pub(crate) fn with(self, topology: CpuTopology, assignments: Assignments) -> Self {
        Self { topology, assignments, ..self }
    }

    /// The CPUs that are assigned to none, without the reserved ones if these are not shared.
    fn unassigned(&self) -> CpuSet {
        let free = self.topology.all().difference(&self.assignments.all());
        match self.settings.policy == Policy::Static && self.settings.options.strict {
            true => free.difference(&self.settings.reserved),
            false => free,
        }
    }

    /// The CPUs that can be given to a container alone (`GetAvailableCPUs`).
    pub(crate) fn available(&self) -> CpuSet {
        self.unassigned().difference(&self.settings.reserved)
    }

    /// The CPUs of the pod's init containers that can be used again.
    fn reusable(&self, pod_uid: &str) -> CpuSet {
        if self.reusable.0 == pod_uid { self.reusable.1.clone() } else { CpuSet::default() }
    }
}
