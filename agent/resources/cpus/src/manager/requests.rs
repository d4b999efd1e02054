//! How many CPUs a container or pod is to have for itself.

use nodewarden_manifest::{Container, ContainerKind, Pod, QosClass, Quantity};

use super::CpuManager;

impl CpuManager {
    /// CPUs for a container alone; 0 if it shares CPUs: it is in no Guaranteed pod, or asks for parts of CPUs
    /// (`guaranteedCPUs`).
    pub(super) fn of_container(&self, pod: &Pod, container: &Container) -> usize {
        let by_pod = self.settings.pod_level && pod.sets_pod_level_resources();
        if pod.qos != QosClass::Guaranteed || by_pod && !is_guaranteed(container) {
            return 0;
        }
        container.resources.requests.get("cpu").map_or(0, whole)
    }

    /// CPUs for the pod as a whole: what it asks for itself, or what its containers have at most at one time
    /// (`podGuaranteedCPUs`; KEP-753).
    pub(super) fn of_pod(&self, pod: &Pod) -> usize {
        if self.settings.pod_level && pod.sets_pod_level_resources() {
            let own = pod.resources.as_ref().and_then(|resources| resources.requests.get("cpu"));
            return own.filter(|_| pod.qos == QosClass::Guaranteed).map_or(0, whole);
        }
        let (mut sidecars, mut starting) = (0, 0);
        for container in &pod.init_containers {
            let cpus = self.of_container(pod, container);
            match container.kind {
                ContainerKind::Sidecar => sidecars += cpus,
                _ => starting = starting.max(sidecars + cpus),
            }
        }
        let running: usize = pod.containers.iter().map(|container| self.of_container(pod, container)).sum();
        starting.max(running + sidecars)
    }

    /// Whether the manager leaves a pod alone because it has resources of its own.
    pub(super) fn leaves_alone(&self, pod: &Pod) -> bool {
        !self.settings.pod_level && pod.sets_pod_level_resources()
    }
}

/// The number of whole CPUs; 0 if it has a fraction.
fn whole(cpus: &Quantity) -> usize {
    let value = cpus.value();
    if value.checked_mul(1000) == Some(cpus.milli_value()) { usize::try_from(value).unwrap_or(0) } else { 0 }
}

/// Whether a container's requests for CPU and memory are its limits (`IsContainerEquivalentQOSGuaranteed`).
fn is_guaranteed(container: &Container) -> bool {
    ["cpu", "memory"].iter().all(|name| {
        let limit = container.resources.limits.get(*name).filter(|limit| !limit.is_zero());
        limit.is_some() && limit == container.resources.requests.get(*name)
    })
}
