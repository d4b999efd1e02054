//! Which extended resources a pod's manifest asks device plugins for.

use nodewarden_manifest::names::is_extended;
use nodewarden_manifest::{Container, Pod};

use crate::{ContainerDemand, PodDemand};

impl PodDemand {
    /// Reads the extended resources from the containers' limits, as the kubelet does; a request cannot differ
    /// from its limit.
    pub fn of(pod: &Pod) -> Self {
        let all = pod.init_containers.iter().chain(&pod.containers);
        let containers = all.map(demand).filter(|own| !own.wanted.is_empty()).collect();
        Self { uid: pod.uid.clone(), containers }
    }

    /// Whether the pod asks for no device at all.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// The part of the demand that belongs to one container.
    pub fn only(&self, container: &str) -> Self {
        let containers = self.containers.iter().filter(|own| own.name == container).cloned().collect();
        Self { uid: self.uid.clone(), containers }
    }
}

fn demand(container: &Container) -> ContainerDemand {
    let limits = container.resources.limits.iter();
    let wanted = limits.filter(|(name, _)| is_extended(name)).filter_map(|(name, amount)| {
        // Manifests whose amount is not a number of devices were refused earlier.
        let amount = usize::try_from(amount.value()).ok().filter(|amount| *amount > 0)?;
        Some((name.clone(), amount))
    });
    ContainerDemand { name: container.name.clone(), kind: container.kind, wanted: wanted.collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        let pod = json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": spec });
        Pod::from_kubernetes(serde_json::from_value(pod).expect("a pod")).expect("a valid pod")
    }

    #[test]
    fn demand_lists_limits_of_extended_resources_in_start_order() {
        let limits = |limits: serde_json::Value| json!({ "limits": limits });
        let demand = PodDemand::of(&pod(json!({
            "initContainers": [
                { "name": "first", "image": "i", "resources": limits(json!({ "a.b/c": "2", "cpu": "1" })) },
                { "name": "side", "image": "i", "restartPolicy": "Always", "resources": limits(json!({ "a.b/c": 1 })) },
            ],
            "containers": [
                { "name": "plain", "image": "i", "resources": limits(json!({ "memory": "1Mi", "cpu": 1 })) },
                { "name": "main", "image": "i", "resources": limits(json!({ "a.b/c": "1", "x.y/z": "3" })) },
            ],
        })));
        let shown: Vec<_> =
            demand.containers.iter().map(|c| (c.name.as_str(), c.kind, c.wanted.len())).collect();
        use nodewarden_manifest::ContainerKind::{Init, Regular, Sidecar};
        assert_eq!(shown, [("first", Init, 1), ("side", Sidecar, 1), ("main", Regular, 2)]);
        assert_eq!(demand.containers[0].wanted["a.b/c"], 2);
        assert_eq!(demand.only("main").containers.len(), 1);
        assert!(demand.only("plain").is_empty());
    }
}
