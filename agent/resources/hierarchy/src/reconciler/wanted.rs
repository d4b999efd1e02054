//! Computes the wanted limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Reconciler;
use crate::desired::{DesiredCgroup, PodsByPath};
use crate::shared::ByPath;
use crate::throttle::{ThrottleOverride, can_idle};
use nodewarden_machine::cgroup::control::{CgroupName, Limits};
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::QosClass;
use nodewarden_qos as qos;

/// The wanted limits, by path.
#[derive(Debug, Default)]
pub struct Wanted {
    pub capacity: Arc<Capacity>,
    /// As written.
    pub exact: ByPath,
    /// As read back afterwards (rounded by the kernel).
    pub limits: ByPath,
    /// Pods by path.
    pub pods: Arc<PodsByPath>,
    /// Whether it stays the same as long as the pods, the overrides and the capacity do, and nothing has to
    /// be reported again.
    pub lasts: bool,
}

impl Wanted {
    /// The limits that differ from `before`, and those of the paths in `again`.
    pub fn changed(&self, before: &Self, again: &BTreeSet<Arc<str>>) -> ByPath {
        if std::ptr::eq(self, before) && again.is_empty() {
            return ByPath::new();
        }
        let other = |path: &str| again.contains(path) || self.limits.get(path) != before.limits.get(path);
        self.limits.iter().filter(|(path, _)| other(path)).map(|(p, l)| (p.clone(), l.clone())).collect()
    }
}

impl Reconciler {
    /// `None` if the limits cannot be computed, which is recorded as a problem.
    pub(super) fn wanted(&mut self) -> Option<Arc<Wanted>> {
        let capacity = self.setup.capacity.borrow().clone();
        if self.is_current && self.wanted.lasts && self.wanted.capacity == capacity {
            return Some(self.wanted.clone());
        }
        let Self { setup, keep, problems, .. } = self;
        let (mut pods, mut lasts) = (PodsByPath::new(), true);
        // Without cgroupsPerQOS pods have no cgroup of their own.
        for desired in keep.iter().flat_map(|k| &k.pods).filter(|_| setup.settings.cgroups_per_qos) {
            match setup.levels.pod(desired.pod.qos, &desired.pod.uid) {
                Ok(name) => {
                    let path = setup.owned.path(&setup.manager.path(&name));
                    pods.insert(path, desired.clone());
                }
                Err(error) => {
                    lasts = false;
                    problems.add("manifests", format!("{}: metadata.uid: {error}", desired.origin));
                }
            }
        }
        let node = qos::Node { settings: &setup.settings, capacity: &capacity, facts: &setup.facts };
        let mut tree = match qos::tree_above(pods.values().map(|desired| &*desired.pod), node) {
            Ok(tree) => tree,
            Err(error) => {
                problems.add("node", error.to_string());
                return None;
            }
        };
        let usage = |name: &CgroupName| setup.manager.usage(&setup.manager.path(name)).ok()?.memory_bytes;
        if setup.settings.qos_reserved_memory_percent.is_some() {
            lasts = false;
            tree.yield_to(usage);
        }
        // Whether they exist is looked at each time.
        lasts &= tree.reserved.is_empty();
        let mut of_reserved = Vec::new();
        for reserved in tree.reserved {
            let path = reserved.name(setup.manager.kind()).map(|name| setup.manager.path(&name));
            match path {
                // It is not created by this agent: only its limits are set.
                Ok(path) if setup.manager.exists(&path) => of_reserved.push((path.into(), reserved.limits)),
                Ok(path) => problems.add(&path, format!("{} does not exist any more", reserved.cgroup)),
                Err(error) => problems.add(&reserved.cgroup, error.to_string()),
            }
        }
        let mut shared = std::mem::take(&mut self.shared);
        let Self { setup, .. } = &*self;
        let node = qos::Node { settings: &setup.settings, capacity: &capacity, facts: &setup.facts };
        let manager = &setup.manager;
        let levels = tree.groups.into_iter().map(|(name, group)| (manager.path(&name).into(), group.limits));
        let of_pods = pods.iter().map(|(path, own)| (path.clone(), qos::pod::limits(&own.pod, node)));
        let throttled = [QosClass::BestEffort, QosClass::Burstable].map(|class| (self.level(class), class));
        let (mut exact, mut limits) = (Vec::new(), Vec::new());
        // Of two with the same path the last one counts.
        for (path, mut own) in levels.chain(of_pods).chain(of_reserved) {
            let path: Arc<str> = path;
            if let Some((_, class)) = throttled.iter().find(|(level, _)| **level == *path) {
                self.apply(*class, &mut own, &pods);
            }
            let (own, settled) = shared.of(own, |own| manager.settled(own));
            exact.push((path.clone(), own));
            limits.push((path, settled));
        }
        shared.forget_unused();
        self.shared = shared;
        let (exact, limits) = (exact.into_iter().collect(), limits.into_iter().collect());
        let wanted = Wanted { capacity, exact, limits, pods: Arc::new(pods), lasts };
        Some(Arc::new(wanted))
    }

    /// Applies the throttle overrides to the limits of a level.
    fn apply(&self, level: QosClass, limits: &mut Limits, pods: &PodsByPath) {
        let Self { setup, overrides, .. } = self;
        match level {
            QosClass::BestEffort => {
                // v1's levels have no such limit of their own, but an idle level must be reset.
                if can_idle(&setup.facts, setup.manager.kind()) {
                    limits.cpu_idle = Some(false);
                }
                overrides.best_effort.apply(limits);
            }
            QosClass::Burstable => {
                let requested =
                    || pods.values().filter(|k| k.pod.qos == QosClass::Burstable).map(memory).sum();
                let memory_high = overrides.burstable.memory_high.map(|high| high.max(requested()));
                ThrottleOverride { memory_high, ..overrides.burstable }.apply(limits);
            }
            QosClass::Guaranteed => {}
        }
    }

    pub(super) fn level(&self, class: QosClass) -> String {
        self.setup.manager.path(self.setup.levels.of(class))
    }
}

/// Memory request of a pod, in bytes.
fn memory(desired: &DesiredCgroup) -> u64 {
    let requests = desired.pod.requests();
    requests.get("memory").and_then(|q| u64::try_from(q.value()).ok()).unwrap_or(0)
}
