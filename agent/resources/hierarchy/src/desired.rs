//! Input and output of the hierarchy manager: the desired pod cgroups, and the state of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodewarden_machine::cgroup::control::DriverKind;
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
        let cgroup = |s: &SourcedPod| DesiredCgroup {
            applied: s.pod.clone(),
            pod: s.pod.clone(),
            version: 0,
            origin: s.origin.clone(),
        };
        Self {
            pods: desired.pods.iter().map(cgroup).collect(),
            problems: desired.problems.iter().map(ToString::to_string).collect(),
            unread: desired.unread,
        }
    }
}

/// Pods by the path of their cgroup.
pub type PodsByPath = BTreeMap<Arc<str>, DesiredCgroup>;

/// States by pod uid. A pod is listed from the creation of its cgroup (or the failure to create it) until the
/// cgroup is removed from every hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCgroupStates(BTreeMap<Arc<str>, PodCgroupState>);

impl PodCgroupStates {
    /// That of the pod with this uid.
    pub fn get(&self, uid: &str) -> Option<&PodCgroupState> {
        self.0.get(uid)
    }

    /// Whether the pod with this uid is listed.
    pub fn contains_key(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// Whether no pod is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by uid.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PodCgroupState)> {
        self.0.iter().map(|(uid, state)| (&**uid, state))
    }
}

impl FromIterator<(Arc<str>, PodCgroupState)> for PodCgroupStates {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, PodCgroupState)>>(states: I) -> Self {
        Self(states.into_iter().collect())
    }
}

/// State of a pod's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroupState {
    /// Path, relative to the mounts.
    pub path: Arc<str>,
    /// The driver that made it; `None` where pods have no cgroup of their own (`cgroupsPerQOS: false`).
    pub driver: Option<DriverKind>,
    /// Why no container may be started in it now: it cannot be created, its limits cannot be written, or it
    /// is being removed. Running containers are not affected.
    pub problem: Option<String>,
    /// The path of the cgroup that the pod had with other settings (`cgroupRoot`, `cgroupDriver`) and in
    /// which it still has processes: they are to be ended, and no container may be started before.
    pub former: Option<String>,
    /// [`DesiredCgroup::version`] of the pod that its limits were last written for.
    pub version: u64,
}

impl PodCgroupState {
    /// What CRI calls `cgroup_parent`: the path for cgroupfs, the slice's name for systemd, empty where pods
    /// have no cgroup of their own.
    pub fn cgroup_parent(&self) -> &str {
        match self.driver {
            None => "",
            Some(DriverKind::Cgroupfs) => &self.path,
            Some(DriverKind::Systemd) => self.path.rsplit('/').next().unwrap_or(&self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_that_the_runtime_is_given() {
        let path = "/kubepods.slice/kubepods-podu.slice";
        for (driver, parent) in [
            (Some(DriverKind::Cgroupfs), path),
            (Some(DriverKind::Systemd), "kubepods-podu.slice"),
            (None, ""),
        ] {
            let (path, problem, former) = (path.into(), None, None);
            let state = PodCgroupState { path, driver, problem, former, version: 0 };
            assert_eq!(state.cgroup_parent(), parent);
        }
    }
}
