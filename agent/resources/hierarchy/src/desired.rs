//! Input and output of the hierarchy manager: the desired pod cgroups, and the state of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodewarden_manifest::Pod;
use nodewarden_model::Origin;
use nodewarden_pods::source::{Desired, SourcedPod, Unread};

/// Every pod that has a cgroup: those that should run, and terminating ones that still have processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DesiredCgroups {
    /// The pods.
    pub pods: Vec<DesiredCgroup>,
    /// Problems of the pod sources, for users.
    pub problems: Vec<String>,
    /// What could not be read completely: cgroups of pods known from there stay.
    pub unread: Unread,
}

/// A pod that has a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredCgroup {
    /// The resources that determine the limits of the pod's cgroup and its share of those above.
    pub pod: Arc<Pod>,
    /// The resources that the runtime was last given; the containers' limits are compared with them. While an
    /// in-place resize makes them differ from `pod`, no container of the pod is corrected: a resize sends an
    /// update in which the two differ before it calls the runtime, and one in which they agree when it is
    /// done.
    pub applied: Arc<Pod>,
    /// Incremented with every change of `pod` that is waited for; returned in [`PodCgroupState::version`].
    pub version: u64,
    /// Where its source has it.
    pub origin: Origin,
}

impl DesiredCgroup {
    /// Whether a resize is in progress, so that containers may have other limits than those of `pod`.
    pub fn is_resized(&self) -> bool {
        let (pod, applied) = (&self.pod, &self.applied);
        let same = || pod.containers == applied.containers && pod.init_containers == applied.init_containers;
        !Arc::ptr_eq(pod, applied) && !same()
    }
}

impl DesiredCgroups {
    /// Whether a pod from `origin` that is not in `pods` is really gone.
    pub fn is_gone(&self, origin: &Origin) -> bool {
        !self.unread.may_have(origin)
    }
}

/// Without a runtime: cgroups for exactly the pods of the source.
impl From<Desired> for DesiredCgroups {
    fn from(desired: Desired) -> Self {
        let cgroup = |s: SourcedPod| DesiredCgroup {
            applied: s.pod.clone(),
            pod: s.pod,
            version: 0,
            origin: s.origin,
        };
        Self {
            pods: desired.pods.into_iter().map(cgroup).collect(),
            problems: desired.problems.iter().map(ToString::to_string).collect(),
            unread: desired.unread,
        }
    }
}

/// States by pod uid. A pod is listed from the creation of its cgroup (or the failure to create it) until the
/// cgroup is removed from every hierarchy.
pub type PodCgroupStates = BTreeMap<String, PodCgroupState>;

/// State of a pod's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroupState {
    /// Path, relative to the mounts.
    pub path: String,
    /// What CRI calls `cgroup_parent`: the path for cgroupfs, the slice's name for systemd, empty where pods
    /// have no cgroup of their own (`cgroupsPerQOS: false`).
    pub cgroup_parent: String,
    /// Why no container may be started in it now: it cannot be created, its limits cannot be written, or it
    /// is being removed. Running containers are not affected.
    pub problem: Option<String>,
    /// The path of the cgroup that the pod had with other settings (`cgroupRoot`, `cgroupDriver`) and in
    /// which it still has processes: they are to be ended, and no container may be started before.
    pub former: Option<String>,
    /// [`DesiredCgroup::version`] of the pod that its limits were last written for.
    pub version: u64,
}
