//! The origins of the pods that run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nodewarden_model::Origin;

use super::SourcedPod;

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

/// The pods whose places no other pod takes. The list of those that were taken is shared with the source, so
/// that nothing is kept for it.
#[derive(Debug)]
pub enum LastTaken {
    /// Those that run when the agent starts.
    Running(PodOrigins),
    /// Those that were taken since.
    Pods(Arc<[SourcedPod]>),
}

/// The same by namespace and name, for one decision.
pub struct Places<'a>(HashMap<(&'a str, &'a str), &'a Origin>);

impl LastTaken {
    /// By namespace and name.
    pub fn places(&self) -> Places<'_> {
        Places(match self {
            Self::Running(PodOrigins(namespaces)) => namespaces
                .iter()
                .flat_map(|(namespace, names)| {
                    names.iter().map(|(name, origin)| ((namespace.as_str(), name.as_str()), origin))
                })
                .collect(),
            Self::Pods(pods) => pods
                .iter()
                .map(|SourcedPod { pod, origin, .. }| ((pod.namespace.as_str(), pod.name.as_str()), origin))
                .collect(),
        })
    }
}

impl Default for LastTaken {
    fn default() -> Self {
        Self::Running(PodOrigins::default())
    }
}

impl Places<'_> {
    /// Whether this is the pod's origin.
    pub fn is(&self, pod: &SourcedPod) -> bool {
        self.0.get(&(pod.pod.namespace.as_str(), pod.pod.name.as_str())) == Some(&&pod.origin)
    }
}
