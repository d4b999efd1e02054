//! A pod's manifest as its record keeps it: Kubernetes' own form on disk, the [`Pod`] itself in memory.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;

use nodewarden_manifest::{Pod, PodKind, Problem, Spec, of_value};

/// A pod as Kubernetes writes it, without a status. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Manifest(Of);

#[derive(Debug, Clone)]
enum Of {
    /// A pod that runs, its uid among it.
    Pod(Arc<Pod>),
    /// What an earlier agent wrote, before it is known whether it is a pod by today's rules.
    Read(Arc<(ObjectMeta, Spec)>),
}

impl Manifest {
    /// Of a pod as it runs.
    pub fn of(pod: &Arc<Pod>) -> Self {
        Self(Of::Pod(pod.clone()))
    }

    pub fn uid(&self) -> &str {
        match &self.0 {
            Of::Pod(pod) => &pod.uid,
            Of::Read(read) => read.0.uid.as_deref().unwrap_or_default(),
        }
    }

    pub fn name(&self) -> &str {
        match &self.0 {
            Of::Pod(pod) => &pod.name,
            Of::Read(read) => read.0.name.as_deref().unwrap_or_default(),
        }
    }

    fn metadata(&self) -> Cow<'_, ObjectMeta> {
        match &self.0 {
            Of::Pod(pod) => Cow::Owned(pod.metadata()),
            Of::Read(read) => Cow::Borrowed(&read.0),
        }
    }

    fn spec(&self) -> &Spec {
        match &self.0 {
            Of::Pod(pod) => &pod.kept_spec,
            Of::Read(read) => &read.1,
        }
    }

    /// The pod again.
    ///
    /// # Errors
    /// Every reason why it is none by today's rules.
    pub fn pod(&self, kind: PodKind) -> Result<Pod, Vec<Problem>> {
        let (metadata, spec) = (self.metadata().into_owned(), PodSpec::clone(&self.spec().get()));
        Pod::of_kind(v1::Pod { metadata, spec: Some(spec), status: None }, kind)
    }
}

/// Whether both are written the same.
impl PartialEq for Manifest {
    fn eq(&self, other: &Self) -> bool {
        self.spec() == other.spec() && self.metadata() == other.metadata()
    }
}

/// As a `v1` Pod without a status.
impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pod = serializer.serialize_struct("Pod", 4)?;
        pod.serialize_field("apiVersion", "v1")?;
        pod.serialize_field("kind", "Pod")?;
        pod.serialize_field("metadata", &*self.metadata())?;
        pod.serialize_field("spec", &**self.spec().get())?;
        pod.end()
    }
}

impl<'de> Deserialize<'de> for Manifest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = of_value::<v1::Pod>(Value::deserialize(deserializer)?);
        let v1::Pod { metadata, spec, .. } = pod.map_err(D::Error::custom)?;
        Ok(Self(Of::Read(Arc::new((metadata, Spec::new(spec.unwrap_or_default()))))))
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
    fn it_shares_the_pod() {
        let pod = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
        let manifest = Manifest::of(&pod);
        assert!(manifest.clone().spec().is_shared(&pod.kept_spec));
        let refused: Manifest = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        assert!(refused.pod(PodKind::Static).is_err());
    }
}
