//! Pods that get memory as a whole (the feature gate PodLevelResourceManagers, alpha in 1.36).

use std::collections::BTreeMap;

use nodewarden_manifest::{ContainerKind, Pod, QosClass};
use nodewarden_topology::{Allocated, Hint};

use super::MemoryManager;
use super::requests::Request;
use crate::{Block, MemoryError, Policy};

impl MemoryManager {
    /// Gives a pod the memory that it asks for as a whole, and each container its part: those whose requests
    /// are their limits have it for themselves, the others share what is left (`AllocatePod`). A pod that has
    /// its memory keeps it (the kubelet takes it from the machine again).
    ///
    /// # Errors
    /// It cannot have it; nothing was given.
    pub fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, MemoryError> {
        if self.settings.policy == Policy::None || pod.qos != QosClass::Guaranteed {
            return Ok(Allocated::Unchanged);
        }
        let request = self.of_pod(pod);
        if request.is_empty() || self.blocks.pods.contains_key(&pod.uid) {
            return Ok(Allocated::Unchanged);
        }
        self.check_pod_pool(pod, &request)?;
        let nodes = self.choose(&pod.uid, &request, affinity)?;
        let blocks = |request: &Request, with_empty: bool| -> Vec<Block> {
            let sizes = request.iter().filter(|(_, size)| with_empty || **size > 0);
            sizes.map(|(resource, size)| Block { nodes, resource: resource.clone(), size: *size }).collect()
        };
        let parts = self.partition(pod, &request);
        for block in blocks(&request, true) {
            self.machine.take(nodes, &block.resource, block.size);
        }
        self.blocks.pods.insert(pod.uid.clone(), blocks(&request, true));
        parts.iter().for_each(|(name, part)| self.blocks.set(&pod.uid, name, blocks(part, false)));
        Ok(Allocated::Given)
    }

    /// Each container's part of what the pod asks for.
    fn partition<'a>(&self, pod: &'a Pod, all: &Request) -> BTreeMap<&'a str, Request> {
        let mut parts = BTreeMap::new();
        // Sidecars keep their memory; an init container has all the other while it runs.
        let mut free = all.clone();
        for container in &pod.init_containers {
            let own = self.of_container(pod, container);
            let sidecar = container.kind == ContainerKind::Sidecar;
            match (own.is_empty(), sidecar) {
                (true, true) => {}
                (true, false) => _ = parts.insert(container.name.as_str(), free.clone()),
                (false, _) => {
                    if sidecar {
                        subtract(&mut free, &own);
                    }
                    parts.insert(container.name.as_str(), own);
                }
            }
        }
        for container in &pod.containers {
            let own = self.of_container(pod, container);
            if !own.is_empty() {
                subtract(&mut free, &own);
                parts.insert(container.name.as_str(), own);
            }
        }
        for container in pod.init_containers.iter().chain(&pod.containers) {
            parts.entry(container.name.as_str()).or_insert_with(|| free.clone());
        }
        parts
    }

    /// Whether every container without memory of its own would have some of the pod
    /// (`validatePodScopeResources`).
    pub(super) fn check_pod_pool(&self, pod: &Pod, total: &Request) -> Result<(), MemoryError> {
        let fail = |text: String| Err(MemoryError::EmptyPodPool(text));
        let (mut running, mut shares) = (Request::new(), false);
        for container in &pod.init_containers {
            let own = self.of_container(pod, container);
            if container.kind == ContainerKind::Sidecar {
                shares |= own.is_empty();
                own.into_iter().for_each(|(resource, size)| *running.entry(resource).or_default() += size);
                continue;
            }
            for (resource, size) in total {
                let left = size.saturating_sub(running.get(resource).copied().unwrap_or(0));
                let wanted = own.get(resource).copied().unwrap_or(0);
                if wanted > left {
                    return fail(format!(
                        "largest exclusive init container requests {wanted} of {resource}, but only {left} available"
                    ));
                }
                if own.is_empty() && left == 0 {
                    return fail(format!(
                        "pod has shared init containers but no {resource} available for them"
                    ));
                }
            }
        }
        for container in &pod.containers {
            let own = self.of_container(pod, container);
            shares |= own.is_empty();
            own.into_iter().for_each(|(resource, size)| *running.entry(resource).or_default() += size);
        }
        let used =
            total.iter().find(|(resource, size)| running.get(*resource).copied().unwrap_or(0) >= **size);
        match used.filter(|_| shares) {
            Some((resource, _)) => fail(format!(
                "sum of exclusive container {resource} requests equals pod budget, leaving no memory for shared containers"
            )),
            None => Ok(()),
        }
    }
}

fn subtract(from: &mut Request, own: &Request) {
    for (resource, size) in own {
        if let Some(left) = from.get_mut(resource) {
            *left = left.saturating_sub(*size);
        }
    }
}
