//! Converts back to Kubernetes' types, for keeping pods on disk and showing them as JSON.

use k8s_openapi::api::core::v1::{self, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Pod, ResourceList, Resources};

impl Pod {
    /// The pod as a manifest with its uid. [`Pod::from_kubernetes`] reads it as the same pod.
    pub fn to_kubernetes(&self) -> v1::Pod {
        v1::Pod { metadata: self.metadata(), spec: Some(PodSpec::clone(&self.spec())), status: None }
    }

    /// The parts of the manifest other than the spec, with the uid.
    pub fn metadata(&self) -> ObjectMeta {
        let some = |map: &std::collections::BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
        ObjectMeta {
            uid: Some(self.uid.clone()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            labels: some(&self.labels),
            annotations: some(&self.annotations),
            ..ObjectMeta::default()
        }
    }
}

impl Resources {
    /// The resources with defaults, quantities in Kubernetes' canonical form.
    pub fn to_kubernetes(&self) -> v1::ResourceRequirements {
        v1::ResourceRequirements { claims: None, limits: list(&self.limits), requests: list(&self.requests) }
    }
}

fn list(list: &ResourceList) -> Option<std::collections::BTreeMap<String, Text>> {
    let text = |(name, quantity): (&String, &super::Quantity)| (name.clone(), Text(quantity.to_string()));
    (!list.is_empty()).then(|| list.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_written_pod_is_read_as_the_same_pod() {
        let manifest = json!({
            "metadata": {"name": "p", "uid": "u-1", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "priorityClassName": "system-node-critical",
                "overhead": {"cpu": "0.05"},
                "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}],
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5", "memory": "64Mi"}}}],
            },
        });
        let pod = Pod::from_kubernetes(serde_json::from_value(manifest).unwrap()).unwrap();
        let written = pod.to_kubernetes();
        assert_eq!(written.metadata.namespace.as_deref(), Some("default"));
        // Also through JSON, in which it is kept on disk.
        let read = serde_json::from_value(serde_json::to_value(&written).unwrap()).unwrap();
        assert_eq!(Pod::from_kubernetes(read).unwrap(), pod);
    }

    #[test]
    fn resources_are_written_with_their_defaults() {
        let manifest = json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5"}}}, {"name": "d", "image": "i"}]}});
        let pod = Pod::from_kubernetes(serde_json::from_value(manifest).unwrap()).unwrap();
        let written = serde_json::to_value(pod.containers[0].resources.to_kubernetes()).unwrap();
        assert_eq!(written, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}));
        assert_eq!(pod.containers[1].resources.to_kubernetes(), v1::ResourceRequirements::default());
    }
}
