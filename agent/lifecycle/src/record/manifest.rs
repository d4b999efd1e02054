//! A pod's manifest as its record keeps it: Kubernetes' own form on disk, one spec with the [`Pod`] in
//! memory.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;

use nodewarden_manifest::{Pod, PodKind, Problem, Spec, of_value};

/// Metadata and spec of a pod as Kubernetes writes them. Cloning shares both.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    metadata: Arc<ObjectMeta>,
    spec: Spec,
}

impl Manifest {
    /// Of a pod as it runs, its uid among it.
    pub fn of(pod: &Pod) -> Self {
        Self { metadata: Arc::new(pod.metadata()), spec: pod.kept_spec.clone() }
    }

    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The pod again.
    ///
    /// # Errors
    /// Every reason why it is none by today's rules.
    pub fn pod(&self, kind: PodKind) -> Result<Pod, Vec<Problem>> {
        let (metadata, spec) = ((*self.metadata).clone(), PodSpec::clone(&self.spec.get()));
        Pod::of_kind(v1::Pod { metadata, spec: Some(spec), status: None }, kind)
    }
}

/// As a `v1` Pod without a status.
impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pod = serializer.serialize_struct("Pod", 4)?;
        pod.serialize_field("apiVersion", "v1")?;
        pod.serialize_field("kind", "Pod")?;
        pod.serialize_field("metadata", &*self.metadata)?;
        pod.serialize_field("spec", &*self.spec.get())?;
        pod.end()
    }
}

impl<'de> Deserialize<'de> for Manifest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = of_value::<v1::Pod>(Value::deserialize(deserializer)?);
        let v1::Pod { metadata, spec, .. } = pod.map_err(D::Error::custom)?;
        Ok(Self { metadata: Arc::new(metadata), spec: Spec::new(spec.unwrap_or_default()) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::pod;

    #[test]
    fn a_manifest_is_written_as_a_kubernetes_pod_and_read_back() {
        let pod = pod(json!({"hostNetwork": true, "containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5"}}}]}));
        let manifest = Manifest::of(&pod);
        let written = serde_json::to_value(&manifest).unwrap();
        assert_eq!(written, serde_json::to_value(pod.to_kubernetes()).unwrap());
        let read: Manifest = serde_json::from_value(written).unwrap();
        assert_eq!(read, manifest);
        assert_eq!(read.pod(PodKind::Static).unwrap(), *pod);
    }

    #[test]
    fn the_spec_is_shared_with_the_pod() {
        let pod = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
        let manifest = Manifest::of(&pod);
        assert!(manifest.clone().spec.is_shared(&pod.kept_spec));
        let refused: Manifest = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        assert!(refused.pod(PodKind::Static).is_err());
    }
}
