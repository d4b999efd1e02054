//! All managers of one machine as one value: nothing is read or written, and no operation waits.

use std::collections::BTreeSet;

use nodewarden_config::ResourceManagerSettings;
use nodewarden_cpus::{self as cpus, CpuManager};
use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::Pod;
use nodewarden_memory_blocks::{self as memory, MemoryManager};
use nodewarden_topology::{Distances, Hint, Machine, Merger, NodeSet, Policy, Provider, Rejection, admit};

use crate::ManagerError;
use crate::settings::{Reservation, Settings};

/// What an earlier agent or a kubelet has saved.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub cpus: Option<cpus::StateFile>,
    pub memory: Option<memory::StateFile>,
}

/// The managers of one machine, with what containers have.
#[derive(Debug)]
pub(crate) struct Managers {
    keys: ResourceManagerSettings,
    reserved: Reservation,
    machine: Machine,
    merger: Merger,
    pub cpus: CpuManager,
    pub memory: MemoryManager,
}

impl Managers {
    /// The managers with what was saved, and what of it could not be kept, as text for people.
    ///
    /// # Errors
    /// A setting cannot be held on this machine.
    pub fn new(
        keys: ResourceManagerSettings,
        reserved: Reservation,
        machine: Machine,
        saved: &Saved,
    ) -> Result<(Self, Vec<String>), ManagerError> {
        let Settings { topology, cpus: cpu_settings, memory: memory_settings } =
            Settings::new(&keys, &reserved, &machine)?;
        let none = cpus::Assignments::default();
        let assignments = saved.cpus.as_ref().map_or(&none, |saved| &saved.assignments);
        let (cpus, found) = CpuManager::restore(machine.cpus.clone(), cpu_settings, assignments);
        let mut findings: Vec<String> = found.iter().map(ToString::to_string).collect();
        let (memory, found) = restore_memory(&machine, memory_settings, saved.memory.as_ref())?;
        findings.extend(found);
        let merger = Merger::new(topology, Distances::of(&machine.nodes));
        Ok((Self { keys, reserved, machine, merger, cpus, memory }, findings))
    }

    /// Whether any policy is set, or a container has something of an earlier one.
    pub fn is_active(&self) -> bool {
        self.cpus.settings().policy != cpus::Policy::None
            || self.memory.settings().policy != memory::Policy::None
            || self.merger.settings().policy != Policy::None
    }

    /// The machine's NUMA nodes.
    pub fn nodes(&self) -> NodeSet {
        self.machine.nodes.iter().map(|node| node.id).collect()
    }

    /// The machine as it was read last.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// `topologyManagerPolicy`.
    pub fn topology_policy(&self) -> &str {
        &self.keys.topology_policy
    }

    /// Gives a pod everything that it asks for, or nothing.
    ///
    /// # Errors
    /// The pod is rejected; nothing was given.
    pub fn admit(&mut self, pod: &Pod, devices: &mut dyn Provider) -> Result<(), Rejection> {
        let Self { merger, cpus, memory, keys, .. } = self;
        // The kubelet's order: devices, CPUs, memory.
        admit(merger, &mut [devices, cpus, memory], pod, keys.pod_level)
    }

    /// Gives a pod that runs already what it should have by the present policies and does not have. Returns
    /// what it could not be given, as text for people.
    pub fn adopt(&mut self, pod: &Pod) -> Vec<String> {
        let any = Hint { affinity: None, preferred: false };
        if self.keys.pod_level && pod.sets_pod_level_resources() {
            let given = [self.cpus.allocate_pod(pod, any).err().map(|error| error.to_string())];
            let memory = self.memory.allocate_pod(pod, any).err().map(|error| error.to_string());
            return given.into_iter().chain([memory]).flatten().collect();
        }
        let mut missing = Vec::new();
        for container in pod.init_containers.iter().chain(&pod.containers) {
            let mut note = |error: String| missing.push(format!("container {}: {error}", container.name));
            if let Err(error) = self.cpus.allocate(pod, container, any) {
                note(error.to_string());
            }
            if let Err(error) = self.memory.allocate(pod, container, any) {
                note(error.to_string());
            }
        }
        missing
    }

    /// Takes back what a pod has; false if it had nothing.
    pub fn release(&mut self, uid: &str) -> bool {
        let had = self.has(uid);
        self.cpus.retain(|pod, _| pod != uid);
        self.memory.retain(|pod, _| pod != uid);
        had
    }

    /// Takes back what the pod's containers have that `keep` does not name.
    pub fn release_others(&mut self, uid: &str, keep: &Given) {
        self.cpus.retain(|pod, name| pod != uid || keep.cpus.contains(name));
        self.memory.retain(|pod, name| pod != uid || keep.memory.contains(name));
    }

    /// Which of the pod's containers have something.
    pub fn given(&self, uid: &str) -> Given {
        let cpus = self.cpus.assignments().containers.get(uid);
        let memory = self.memory.blocks().containers.get(uid);
        Given {
            cpus: cpus.into_iter().flat_map(|own| own.keys().cloned()).collect(),
            memory: memory.into_iter().flat_map(|own| own.keys().cloned()).collect(),
        }
    }

    fn has(&self, uid: &str) -> bool {
        self.given(uid) != Given::default()
    }

    /// Uids of all pods that have something.
    pub fn pods(&self) -> BTreeSet<String> {
        let cpus = self.cpus.assignments().containers.keys();
        cpus.chain(self.memory.blocks().containers.keys()).cloned().collect()
    }

    /// The CPUs of a container; `None` if it may run on all.
    pub fn cpus_of(&self, uid: &str, container: &str) -> Option<CpuSet> {
        (self.cpus.settings().policy != cpus::Policy::None).then(|| self.cpus.cpus_of(uid, container))
    }

    /// What has to be saved.
    pub fn saved(&self) -> (cpus::StateFile, memory::StateFile) {
        (cpus::StateFile::of(&self.cpus), memory::StateFile::of(&self.memory))
    }

    /// Whether the feature gate PodLevelResourceManagers is on.
    pub fn pod_level(&self) -> bool {
        self.keys.pod_level
    }

    /// The same on a machine that has changed: every container keeps what is still there. Returns what could
    /// not be kept, as text for people. If reserved CPUs went offline, as many others as are left stay
    /// reserved.
    ///
    /// # Errors
    /// A setting cannot be held on the machine as it is now: everything stays as it was.
    pub fn moved_to(&self, machine: Machine) -> Result<(Self, Vec<String>), ManagerError> {
        let mut keys = self.keys.clone();
        let mut reserved = self.reserved.clone();
        let mut findings = Vec::new();
        let offline = keys.reserved_cpus.difference(machine.cpus.all());
        if !offline.is_empty() {
            keys.reserved_cpus = keys.reserved_cpus.intersection(machine.cpus.all());
            let left = i64::try_from(keys.reserved_cpus.len()).unwrap_or(i64::MAX);
            reserved.0.insert("cpu".to_owned(), nodewarden_manifest::Quantity::from_whole(left));
            findings.push(format!("reserved CPUs {offline} are not online"));
        }
        let (cpus, memory) = self.saved();
        let saved = Saved { cpus: Some(cpus), memory: Some(memory) };
        let (mut managers, found) = Self::new(keys, reserved, machine, &saved)?;
        // What is set stays set: the CPUs may come back.
        managers.keys = self.keys.clone();
        managers.reserved = self.reserved.clone();
        findings.extend(found);
        Ok((managers, findings))
    }
}

/// Which containers of a pod have CPUs and memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given {
    cpus: BTreeSet<String>,
    memory: BTreeSet<String>,
}

fn restore_memory(
    machine: &Machine,
    settings: memory::Settings,
    saved: Option<&memory::StateFile>,
) -> Result<(MemoryManager, Vec<String>), ManagerError> {
    let Some(saved) = saved else { return Ok((MemoryManager::new(&machine.nodes, settings)?, Vec::new())) };
    let is_static = saved.policy == memory::Policy::Static.name();
    let (manager, found) = MemoryManager::restore(&machine.nodes, settings, &saved.machine, &saved.blocks)?;
    // The file of the policy None has no NUMA nodes: nothing has changed.
    let found = found.iter().filter(|finding| is_static || **finding != memory::Finding::Changed);
    Ok((manager, found.map(ToString::to_string).collect()))
}

#[cfg(test)]
mod tests;
