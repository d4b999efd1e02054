//! The results of a pod's probes that decisions and its status are made of: plain values.

use super::policy;
use crate::decide::observed::ContainerSeen;
use crate::record::Record;
use nodewarden_manifest::Pod;
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_pods::probes::{ProbeMemory, rules};

/// What the probes of one pod's containers have found so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Published {
    /// Each of the container whose id is in it.
    memories: Vec<ProbeMemory>,
    /// Containers whose main process the kernel saw end, as long as the runtime says that they run.
    exited: Vec<String>,
}

/// What a pod without probes has.
pub static NOTHING: Published = Published { memories: Vec::new(), exited: Vec::new() };

impl Published {
    /// What an earlier agent has saved.
    pub fn of(record: &Record) -> Self {
        let own = record.containers.values().filter_map(|own| own.probes.as_ref());
        let memories = own.map(|probes| probes.memory.clone()).filter(|memory| !memory.container.is_empty());
        Self { memories: memories.collect(), exited: Vec::new() }
    }

    /// Takes over the result of one probe of a container.
    pub fn publish(&mut self, memory: &ProbeMemory, kind: ProbeKind) {
        if self.memory(&memory.container).is_none() {
            self.memories.push(ProbeMemory::new(&memory.container));
        }
        for own in self.memories.iter_mut().filter(|own| own.container == memory.container) {
            *own.of_mut(kind) = *memory.of(kind);
        }
    }

    /// The kernel saw its main process end; false if that was known.
    pub fn exit(&mut self, id: &str) -> bool {
        let news = !self.has_exited(id);
        if news {
            self.exited.push(id.to_owned());
        }
        news
    }

    /// The runtime still reports that it runs; false if the kernel had not seen it end.
    pub fn is_alive(&mut self, id: &str) -> bool {
        let before = self.exited.len();
        self.exited.retain(|own| own != id);
        self.exited.len() < before
    }

    /// Forgets every container but those that `lives` is true of.
    pub fn retain(&mut self, lives: impl Fn(&str) -> bool) {
        self.memories.retain(|memory| lives(&memory.container));
        self.exited.retain(|id| lives(id));
    }

    pub fn has_exited(&self, id: &str) -> bool {
        self.exited.iter().any(|own| own == id)
    }

    /// Of a running container whose postStart hook is done: it has no startup probe, or that has succeeded.
    pub fn started(&self, pod: &Pod, seen: &ContainerSeen) -> bool {
        self.judge(pod, seen, rules::started).unwrap_or(true)
    }

    /// Of such a container: it has started, and has no readiness probe or that succeeds.
    pub fn ready(&self, pod: &Pod, seen: &ContainerSeen) -> bool {
        !self.has_exited(&seen.id) && self.judge(pod, seen, rules::ready).unwrap_or(true)
    }

    /// The probe that a running container is to be ended for.
    pub fn failed(&self, pod: &Pod, seen: &ContainerSeen) -> Option<ProbeKind> {
        // What nothing is known of has not failed.
        let memory = self.memory(&seen.id).filter(|_| !self.has_exited(&seen.id))?;
        rules::failed(&specs(pod, &seen.name), memory)
    }

    fn memory(&self, id: &str) -> Option<&ProbeMemory> {
        self.memories.iter().find(|memory| memory.container == id)
    }

    /// `None` for a container without probes.
    fn judge<T>(
        &self,
        pod: &Pod,
        seen: &ContainerSeen,
        rule: fn(&[ProbeSpec], &ProbeMemory) -> T,
    ) -> Option<T> {
        let specs = specs(pod, &seen.name);
        if specs.is_empty() {
            return None;
        }
        Some(match self.memory(&seen.id) {
            Some(memory) => rule(&specs, memory),
            None => rule(&specs, &ProbeMemory::new(&seen.id)),
        })
    }
}

/// The probes of a container; most have none, which costs nothing.
pub fn specs(pod: &Pod, name: &str) -> Vec<ProbeSpec> {
    policy::spec_of(pod, name)
        .filter(|spec| policy::has_probes(spec))
        .map(|spec| ProbeSpec::of(&spec))
        .unwrap_or_default()
}
