//! How many CPUs a container or pod is to have for itself under the CPU manager's policy `static` (kubelet
//! `cpumanager.guaranteedCPUs`, `podGuaranteedCPUs`).

use crate::{Container, ContainerKind, Pod, QosClass, Quantity};

impl Pod {
    /// CPUs that a container is to have for itself; 0 if it shares CPUs: the pod is not Guaranteed, the
    /// container asks for parts of CPUs, or the manager leaves the pod alone because it has resources of its
    /// own. `pod_level`: the feature gate PodLevelResourceManagers, by which such a pod gets CPUs too.
    pub fn exclusive_cpus(&self, container: &Container, pod_level: bool) -> usize {
        let by_pod = self.sets_pod_level_resources();
        if self.qos != QosClass::Guaranteed || by_pod && !(pod_level && is_guaranteed(container)) {
            return 0;
        }
        container.resources.requests.get("cpu").map_or(0, whole)
    }

    /// CPUs that the pod as a whole is to have for itself: what it asks for itself, or what its containers
    /// have at most at one time (KEP-753). `pod_level` as in [`Self::exclusive_cpus`].
    pub fn exclusive_cpus_of_all(&self, pod_level: bool) -> usize {
        if self.sets_pod_level_resources() {
            let own = self.resources.as_ref().and_then(|resources| resources.requests.get("cpu"));
            return own.filter(|_| pod_level && self.qos == QosClass::Guaranteed).map_or(0, whole);
        }
        let (mut sidecars, mut starting) = (0, 0);
        for container in &self.init_containers {
            let cpus = self.exclusive_cpus(container, pod_level);
            match container.kind {
                ContainerKind::Sidecar => sidecars += cpus,
                _ => starting = starting.max(sidecars + cpus),
            }
        }
        let running: usize =
            self.containers.iter().map(|container| self.exclusive_cpus(container, pod_level)).sum();
        starting.max(running + sidecars)
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
        let limit = container.resources.limits.get(name).filter(|limit| !limit.is_zero());
        limit.is_some() && limit == container.resources.requests.get(name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fixture::pod;

    #[test]
    fn only_whole_cpus_of_guaranteed_pods_are_exclusive() {
        for (cpu, memory, exclusive) in
            [("2", "1Gi", 2), ("2000m", "1Gi", 2), ("1500m", "1Gi", 0), ("0", "1Gi", 0), ("2", "0", 0)]
        {
            let limits = json!({ "limits": { "cpu": cpu, "memory": memory } });
            let pod = pod(json!({ "containers": [{ "name": "c", "image": "i", "resources": limits }] }));
            assert_eq!(pod.exclusive_cpus(&pod.containers[0], false), exclusive, "{cpu} {memory}");
            assert_eq!(pod.exclusive_cpus_of_all(false), exclusive, "{cpu} {memory}");
        }
    }

    #[test]
    fn a_pod_with_resources_of_its_own_has_exclusive_cpus_only_with_the_feature_gate() {
        let limits = json!({ "limits": { "cpu": "2", "memory": "1Gi" } });
        let amounts = json!({ "cpu": "3", "memory": "2Gi" });
        let own = json!({ "requests": amounts, "limits": amounts });
        let containers = json!([{ "name": "c", "image": "i", "resources": limits }]);
        let pod = pod(json!({ "containers": containers, "resources": own }));
        for (pod_level, container, all) in [(false, 0, 0), (true, 2, 3)] {
            assert_eq!(pod.exclusive_cpus(&pod.containers[0], pod_level), container);
            assert_eq!(pod.exclusive_cpus_of_all(pod_level), all);
        }
    }
}
