//! The origins of the pods that run.

use std::collections::BTreeMap;

use nodewarden_model::Origin;

/// The origin of each pod that runs, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodOrigins(BTreeMap<String, BTreeMap<String, Origin>>);

impl PodOrigins {
    /// Sets the origin of a pod.
    pub fn set(&mut self, namespace: &str, name: &str, origin: impl Into<Origin>) {
        self.0.entry(namespace.to_owned()).or_default().insert(name.to_owned(), origin.into());
    }

    /// Whether this is the pod's origin.
    pub fn is(&self, namespace: &str, name: &str, origin: &Origin) -> bool {
        self.0.get(namespace).and_then(|names| names.get(name)) == Some(origin)
    }
}
