//! What the keeper is told to keep, and what it tells back: where each pod's cgroup is.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodewarden_manifest::Pod;
use nodewarden_pods::source::{Desired, SourcedPod, Unread};

/// Every pod that has a cgroup: those that should run, and those on their way out that still have processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keep {
    pub pods: Vec<Kept>,
    /// What is wrong with where pods come from, for people.
    pub problems: Vec<String>,
    /// What could not be read completely: cgroups of pods known from there stay.
    pub unread: Unread,
}

/// One pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Decides the limits of the pod's level and its part of those above.
    pub pod: Arc<Pod>,
    /// What the containers' limits are compared with: the resources that the runtime was told last. As long as an
    /// in-place resize has them differ from `pod`, no container of the pod is put right: whoever resizes sends a word
    /// in which the two differ before the runtime is told anything, and one in which they agree when that is done.
    pub told: Arc<Pod>,
    /// Grows with every change of `pod` that somebody waits for; comes back in [`Place::version`].
    pub version: u64,
    /// See [`SourcedPod::origin`].
    pub origin: String,
}

impl Kept {
    /// Whether containers may have other limits than the pod wants.
    pub fn is_resized(&self) -> bool {
        let (pod, told) = (&self.pod, &self.told);
        let same = || pod.containers == told.containers && pod.init_containers == told.init_containers;
        !Arc::ptr_eq(pod, told) && !same()
    }
}

impl Keep {
    /// Whether a pod from `origin` that is not among the pods is really gone.
    pub fn is_gone(&self, origin: &str) -> bool {
        !self.unread.may_have(origin)
    }
}

/// Without a runtime: cgroups for exactly the pods that the source names.
impl From<Desired> for Keep {
    fn from(desired: Desired) -> Self {
        let kept = |s: SourcedPod| Kept { told: s.pod.clone(), pod: s.pod, version: 0, origin: s.origin };
        Self {
            pods: desired.pods.into_iter().map(kept).collect(),
            problems: desired.problems.iter().map(ToString::to_string).collect(),
            unread: desired.unread,
        }
    }
}

/// Places by pod uid. A pod is in here from when its cgroup stands (or cannot be made, with the problem) until it is
/// gone from every hierarchy.
pub type Places = BTreeMap<String, Place>;

/// Where a pod's cgroup is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Below the mounts.
    pub path: String,
    /// What CRI calls `cgroup_parent`: the path for cgroupfs, the slice's name for systemd, empty where pods have no
    /// cgroup of their own (`cgroupsPerQOS: false`).
    pub cgroup_parent: String,
    /// Why no container may be started there now: it cannot be made, its limits cannot be written, or it is being
    /// removed. What runs there goes on.
    pub problem: Option<String>,
    /// [`Kept::version`] of what its limits were last written for.
    pub version: u64,
}
