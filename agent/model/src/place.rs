//! Where an event happened.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Pod and container of an event; what is unknown is an empty string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodRef {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The runtime's id of the container; empty for an event of the pod as a whole.
    pub container_id: String,
    /// The container's name in the manifest.
    pub container_name: String,
}

/// Where an event happened. Displayed as the names of the pod and container, and the path of the cgroup.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Path of the cgroup; empty for an event of the node.
    pub cgroup: &'a str,
    /// The pod and container that the cgroup belongs to, if known.
    pub pod: Option<&'a PodRef>,
}

impl Place<'_> {
    /// Whether neither cgroup nor pod is known: an event of the node.
    pub fn is_empty(&self) -> bool {
        self.pod.is_none() && self.cgroup.is_empty()
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pod) = self.pod else { return f.write_str(self.cgroup) };
        f.write_str("pod ")?;
        match (pod.namespace.is_empty(), pod.name.is_empty()) {
            (false, false) => write!(f, "{}/{}", pod.namespace, pod.name)?,
            (true, false) => f.write_str(&pod.name)?,
            (_, true) => f.write_str(&pod.uid)?,
        }
        match (pod.container_name.is_empty(), pod.container_id.get(..12)) {
            (false, _) => write!(f, " container {}", pod.container_name)?,
            (true, Some(short)) => write!(f, " container {short}")?,
            (true, None) if !pod.container_id.is_empty() => write!(f, " container {}", pod.container_id)?,
            (true, None) => {}
        }
        write!(f, " [{}]", self.cgroup)
    }
}
