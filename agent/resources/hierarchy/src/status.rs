//! The status of the hierarchy as of the last reconcile, for other threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::desired::PodsByPath;
use nodewarden_model::{HierarchyStatus, NodeResource, PodCgroup};

/// Reads the status. What it says of each pod is put together when it is read: the pods themselves are held
/// anyway.
#[derive(Debug, Clone, Default)]
pub struct StatusReader(Arc<Mutex<PublishedStatus>>);

/// What the reconciler publishes.
#[derive(Debug, Clone, Default)]
pub struct PublishedStatus {
    /// Everything but `pods`.
    pub rest: HierarchyStatus,
    pub pods: Arc<PodsByPath>,
    /// What is wrong with cgroups of these pods, by path.
    pub problems: BTreeMap<Arc<str>, String>,
}

impl StatusReader {
    /// The status as of the last reconcile.
    pub fn read(&self) -> HierarchyStatus {
        let PublishedStatus { rest, pods, problems } = self.0.lock().clone();
        let pods = pods.iter().map(|(path, desired)| PodCgroup {
            uid: desired.pod.uid.clone(),
            namespace: desired.pod.namespace.clone(),
            name: desired.pod.name.clone(),
            qos: Some(desired.pod.qos),
            path: path.to_string(),
            problem: problems.get(path).cloned().unwrap_or_default(),
        });
        HierarchyStatus { pods: pods.collect(), ..rest }
    }

    /// Only what the node has and what of it pods can have.
    pub fn resources(&self) -> Vec<NodeResource> {
        self.0.lock().rest.resources.clone()
    }

    pub(crate) fn publish(&self, status: PublishedStatus) {
        *self.0.lock() = status;
    }
}
