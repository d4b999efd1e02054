//! How much memory of each type a container or pod asks for.

use std::collections::BTreeMap;

use nodewarden_manifest::{Container, ContainerKind, Pod, ResourceList};

use super::MemoryManager;
use crate::is_memory;

/// Bytes by type.
pub(super) type Request = BTreeMap<String, u64>;

impl MemoryManager {
    /// What a container asks for; nothing if the pod has resources of its own and the container's requests
    /// are not its limits (`getContainerRequestedResources`).
    pub(super) fn of_container(&self, pod: &Pod, container: &Container) -> Request {
        if self.by_pod(pod) && !is_guaranteed(container) {
            return Request::new();
        }
        bytes(&container.resources.requests).collect()
    }

    /// What the pod asks for itself, or what its containers have at most at one time: of the types that its
    /// regular containers ask for (`getPodRequestedResources`; KEP-753).
    pub(super) fn of_pod(&self, pod: &Pod) -> Request {
        if self.by_pod(pod) {
            let own = pod.resources.as_ref().map(|resources| bytes(&resources.requests));
            return own.into_iter().flatten().filter(|(_, bytes)| *bytes > 0).collect();
        }
        let (mut sidecars, mut starting, mut running) = (Request::new(), Request::new(), Request::new());
        for container in &pod.init_containers {
            for (resource, bytes) in self.of_container(pod, container) {
                let beside = sidecars.entry(resource.clone()).or_default();
                if container.kind == ContainerKind::Sidecar {
                    *beside += bytes;
                } else {
                    let most = starting.entry(resource).or_default();
                    *most = (*most).max(*beside + bytes);
                }
            }
        }
        for container in &pod.containers {
            for (resource, bytes) in self.of_container(pod, container) {
                *running.entry(resource).or_default() += bytes;
            }
        }
        for (resource, bytes) in &mut running {
            let of = |request: &Request| request.get(resource).copied().unwrap_or(0);
            *bytes = (*bytes + of(&sidecars)).max(of(&starting));
        }
        running
    }

    /// Whether the pod gets memory as a whole.
    pub(super) fn by_pod(&self, pod: &Pod) -> bool {
        self.settings.pod_level && pod.sets_pod_level_resources()
    }

    /// Whether the manager leaves a pod alone because it has resources of its own.
    pub(super) fn leaves_alone(&self, pod: &Pod) -> bool {
        !self.settings.pod_level && pod.sets_pod_level_resources()
    }
}

fn bytes(requests: &ResourceList) -> impl Iterator<Item = (String, u64)> {
    let memory = requests.iter().filter(|(name, _)| is_memory(name));
    memory.map(|(name, amount)| (name.clone(), u64::try_from(amount.value()).unwrap_or(0)))
}

/// Whether a container's requests for CPU and memory are its limits (`IsContainerEquivalentQOSGuaranteed`).
fn is_guaranteed(container: &Container) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = container.resources.limits.get(name).filter(|limit| !limit.is_zero());
        limit.is_some() && limit == container.resources.requests.get(name)
    })
}
