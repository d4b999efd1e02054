//! What should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Syncer;
use crate::keep::Kept;
use crate::overlay::{Squeeze, can_idle};
use crate::steps::ByPath;
use nodewarden_machine::cgroup::control::CgroupName;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::QosClass;
use nodewarden_qos as qos;

/// What should be, by path.
#[derive(Debug, Default)]
pub struct Wanted {
    pub capacity: Capacity,
    /// As they are written.
    pub told: ByPath,
    /// As they are read afterwards.
    pub limits: ByPath,
    /// Pods by path.
    pub pods: BTreeMap<String, Kept>,
}

impl Wanted {
    /// What is wanted otherwise than before, and what is to be looked at again.
    pub fn otherwise(&self, before: &Self, again: &BTreeSet<String>) -> ByPath {
        let other = |path: &str| again.contains(path) || self.limits.get(path) != before.limits.get(path);
        self.limits.iter().filter(|(path, _)| other(path)).map(|(p, l)| (p.clone(), l.clone())).collect()
    }
}

impl Syncer {
    /// `None` when it cannot be computed, with the problem noted.
    pub(super) fn wanted(&mut self) -> Option<Arc<Wanted>> {
        let capacity = self.capacity.clone()?;
        let Self { setup, keep, problems, .. } = self;
        let mut pods = BTreeMap::new();
        // Without cgroupsPerQOS pods have no cgroup of their own.
        for kept in keep.iter().flat_map(|k| &k.pods).filter(|_| setup.settings.cgroups_per_qos) {
            match setup.levels.pod(kept.pod.qos, &kept.pod.uid) {
                Ok(name) => drop(pods.insert(setup.manager.path(&name), kept.clone())),
                Err(error) => problems.add("manifests", format!("{}: metadata.uid: {error}", kept.origin)),
            }
        }
        let node = qos::Node { settings: &setup.settings, capacity: &capacity, facts: &setup.facts };
        let mut tree = match qos::tree(pods.values().map(|kept| &*kept.pod), node) {
            Ok(tree) => tree,
            Err(error) => {
                problems.add("node", error.to_string());
                return None;
            }
        };
        let usage = |name: &CgroupName| setup.manager.usage(&setup.manager.path(name)).ok()?.memory_bytes;
        if setup.settings.qos_reserved_memory_percent.is_some() {
            tree.yield_to(usage);
        }
        let groups = tree.groups.into_iter();
        let mut told: ByPath =
            groups.map(|(name, group)| (setup.manager.path(&name), group.limits)).collect();
        for reserved in tree.reserved {
            let path = reserved.name(setup.manager.kind()).map(|name| setup.manager.path(&name));
            match path {
                // Somebody else's: gets limits, is never made.
                Ok(path) if setup.manager.exists(&path) => drop(told.insert(path, reserved.limits)),
                Ok(path) => problems.add(&path, format!("{} does not exist any more", reserved.cgroup)),
                Err(error) => problems.add(&reserved.cgroup, error.to_string()),
            }
        }
        self.lay_over(&mut told, &pods);
        let Self { setup, .. } = self;
        let limits = told.iter().map(|(path, l)| (path.clone(), setup.manager.settled(l))).collect();
        Some(Arc::new(Wanted { capacity, told, limits, pods }))
    }

    /// Narrows the levels to what they are held to.
    fn lay_over(&self, told: &mut ByPath, pods: &BTreeMap<String, Kept>) {
        let Self { setup, overlay, .. } = self;
        let (best_effort, burstable) = (self.level(QosClass::BestEffort), self.level(QosClass::Burstable));
        if let Some(limits) = told.get_mut(&best_effort) {
            // v1's levels say nothing of it by themselves, and must be put back all the same.
            if can_idle(&setup.facts, setup.manager.kind()) {
                limits.cpu_idle = Some(false);
            }
            overlay.best_effort.lay_over(limits);
        }
        if let Some(limits) = told.get_mut(&burstable) {
            let requested = || pods.values().filter(|k| k.pod.qos == QosClass::Burstable).map(memory).sum();
            let memory_high = overlay.burstable.memory_high.map(|high| high.max(requested()));
            Squeeze { memory_high, ..overlay.burstable }.lay_over(limits);
        }
    }

    pub(super) fn level(&self, class: QosClass) -> String {
        self.setup.manager.path(self.setup.levels.of(class))
    }

    /// What a cgroup is held to over its own limits.
    pub(super) fn squeeze_of(&self, path: &str) -> Squeeze {
        match path {
            path if path == self.level(QosClass::BestEffort) => self.overlay.best_effort,
            path if path == self.level(QosClass::Burstable) => self.overlay.burstable,
            _ => Squeeze::default(),
        }
    }
}

/// Bytes of memory that a pod requests.
fn memory(kept: &Kept) -> u64 {
    let requests = kept.pod.requests();
    requests.get("memory").and_then(|q| u64::try_from(q.value()).ok()).unwrap_or(0)
}
