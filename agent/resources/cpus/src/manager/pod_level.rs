//! Pods that get CPUs as a whole (the feature gate PodLevelResourceManagers, alpha in 1.36).

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::{ContainerKind, Pod};
use nodewarden_topology::{Allocated, Hint};

use super::CpuManager;
use crate::{CpuError, Policy};

impl CpuManager {
    /// Gives a pod the CPUs that it asks for as a whole, and each container its part: those that ask for
    /// whole CPUs have them for themselves, the others share what is left of the pod's (`AllocatePod`). A pod
    /// that has its CPUs keeps them (the kubelet takes others, and loses the old ones).
    ///
    /// # Errors
    /// It cannot have them; nothing was given.
    pub fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, CpuError> {
        let requested = self.of_pod(pod);
        if self.settings.policy == Policy::None
            || requested == 0
            || self.assignments.pods.contains_key(&pod.uid)
        {
            return Ok(Allocated::Unchanged);
        }
        self.check_pod_pool(pod)?;
        self.check_cores(requested)?;
        let all = self.choose(requested, affinity.affinity, &CpuSet::default())?;
        let parts = self.partition(pod, &all)?;
        self.assignments.pods.insert(pod.uid.clone(), all);
        parts.into_iter().for_each(|(container, cpus)| self.assignments.set(&pod.uid, container, cpus));
        Ok(Allocated::Given)
    }

    /// Each container's part of the pod's CPUs.
    fn partition<'a>(&self, pod: &'a Pod, all: &CpuSet) -> Result<BTreeMap<&'a str, CpuSet>, CpuError> {
        let mut parts = BTreeMap::new();
        let take = |free: &CpuSet, cpus| self.settings.options.take(&self.topology, free, cpus);
        // Sidecars keep their CPUs; an init container has all others while it runs.
        let mut free = all.clone();
        for container in &pod.init_containers {
            let cpus = self.of_container(pod, container);
            let sidecar = container.kind == ContainerKind::Sidecar;
            let part = match (cpus, sidecar) {
                (0, true) => continue,
                (0, false) => free.clone(),
                _ => take(&free, cpus)?,
            };
            if sidecar {
                free = free.difference(&part);
            }
            parts.insert(container.name.as_str(), part);
        }
        for container in &pod.containers {
            let cpus = self.of_container(pod, container);
            if cpus > 0 {
                let part = take(&free, cpus)?;
                free = free.difference(&part);
                parts.insert(container.name.as_str(), part);
            }
        }
        for container in pod.init_containers.iter().chain(&pod.containers) {
            parts.entry(container.name.as_str()).or_insert_with(|| free.clone());
        }
        Ok(parts)
    }

    /// Whether every container without CPUs of its own would have some of the pod
    /// (`validatePodScopeResources`).
    pub(super) fn check_pod_pool(&self, pod: &Pod) -> Result<(), CpuError> {
        if self.leaves_alone(pod) {
            return Ok(());
        }
        let fail = |text: String| Err(CpuError::EmptyPodPool(text));
        let total = self.of_pod(pod);
        let (mut running, mut shares) = (0, false);
        for container in &pod.init_containers {
            let cpus = self.of_container(pod, container);
            if container.kind == ContainerKind::Sidecar {
                shares |= cpus == 0;
                running += cpus;
                continue;
            }
            let left = total.saturating_sub(running);
            if cpus > left {
                return fail(format!(
                    "largest exclusive init container requests {cpus} cpus, but only {left} available"
                ));
            }
            if cpus == 0 && left == 0 {
                return fail("pod has shared init containers but no cpus available for them".to_owned());
            }
        }
        for container in &pod.containers {
            let cpus = self.of_container(pod, container);
            shares |= cpus == 0;
            running += cpus;
        }
        if shares && running >= total {
            return fail(
                "sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
