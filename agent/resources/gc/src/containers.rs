//! The facts for planning the removal of dead containers and sandboxes, from the runtime's list and the pods'
//! status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_cri::{ListedContainer, ListedSandbox, Listing};
use nodewarden_manifest::ContainerKind;
use nodewarden_model::{ContainerState, PodPhase, PodView};
use nodewarden_pods::spec::Ownership;
use nodewarden_pods::spec::labels::{CONTAINER_NAME, POD_UID};
use nodewarden_pods::status::DesiredPods;
use nodewarden_proto::runtime::v1 as cri;

use super::plan::{DeadContainer, SandboxFact};

/// The node's pods, as far as garbage collection needs them.
#[derive(Debug)]
pub struct Pods {
    by_uid: BTreeMap<String, Arc<PodView>>,
    /// Uids of pods in manifests, including those that have not started.
    wanted: BTreeSet<String>,
    /// Every manifest could be read, so that a missing pod is gone (kubelet: allSourcesReady).
    whole: bool,
}

impl Pods {
    pub fn new(pods: Vec<Arc<PodView>>, wanted: &DesiredPods) -> Self {
        Self {
            by_uid: pods.into_iter().map(|view| (view.pod.uid.clone(), view)).collect(),
            wanted: wanted.pods.iter().map(|sourced| sourced.pod.uid.clone()).collect(),
            whole: wanted.complete,
        }
    }

    /// Whether the pod is gone, or was evicted or preempted and nothing of it runs (kubelet
    /// `ShouldPodContentBeRemoved`).
    pub fn content_can_be_removed(&self, uid: &str) -> bool {
        match self.by_uid.get(uid) {
            None => self.no_longer_exists(uid),
            Some(view) => view.terminating.is_none() && view.is_evicted_or_preempted(),
        }
    }

    /// Whether there is no such pod any more.
    pub fn no_longer_exists(&self, uid: &str) -> bool {
        self.whole && !self.by_uid.contains_key(uid) && !self.wanted.contains(uid)
    }

    pub fn get(&self, uid: &str) -> Option<&PodView> {
        self.by_uid.get(uid).map(|view| &**view)
    }

    fn has_ended(&self, uid: &str) -> bool {
        self.get(uid).is_some_and(|view| matches!(view.phase, PodPhase::Succeeded | PodPhase::Failed))
    }
}

/// This agent's dead containers and its sandboxes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub dead: Vec<DeadContainer>,
    pub sandboxes: Vec<SandboxFact>,
}

/// Selects what is this agent's.
pub fn facts(listing: &Listing, ownership: &Ownership, pods: &Pods) -> Facts {
    let dead = listing.containers.iter().filter(|c| ownership.has(&c.labels)).filter_map(|c| dead(c, pods));
    let sandboxes = listing.sandboxes.iter().filter(|s| ownership.has(&s.labels)).map(|sandbox| {
        let metadata = sandbox.metadata.clone().unwrap_or_default();
        let of_it = listing.containers.iter().filter(|c| c.pod_sandbox_id == sandbox.id);
        SandboxFact {
            id: sandbox.id.clone(),
            attempt: metadata.attempt,
            created: time(sandbox.created_at),
            ready: sandbox.state == cri::PodSandboxState::SandboxReady as i32,
            containers: of_it.map(|c| c.id.clone()).collect(),
            pod_gone: pods.content_can_be_removed(&metadata.uid),
            pod_ended: pods.has_ended(&metadata.uid),
            uid: metadata.uid,
        }
    });
    Facts { dead: dead.collect(), sandboxes: sandboxes.collect() }
}

/// `None` for a container that must not be collected: it runs, or its pod's worker still needs it.
fn dead(container: &ListedContainer, pods: &Pods) -> Option<DeadContainer> {
    let uid = container.labels.get(POD_UID)?.clone();
    let name = container.labels.get(CONTAINER_NAME)?.clone();
    let pod_gone = pods.content_can_be_removed(&uid);
    let is_collectable = match cri::ContainerState::try_from(container.state) {
        Ok(cri::ContainerState::ContainerExited) => {
            pod_gone || is_done_with(&container.id, &name, &uid, pods)
        }
        // If its pod exists, the container is about to be started or stopped.
        Ok(cri::ContainerState::ContainerCreated | cri::ContainerState::ContainerUnknown) | Err(_) => {
            pod_gone
        }
        Ok(cri::ContainerState::ContainerRunning) => false,
    };
    is_collectable.then(|| DeadContainer {
        id: container.id.clone(),
        sandbox: container.pod_sandbox_id.clone(),
        uid,
        name,
        attempt: container.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        created: time(container.created_at),
        pod_gone,
    })
}

/// Whether the pod no longer needs this ended container: its exit is recorded, and it is not what shows that
/// the init containers have run.
fn is_done_with(id: &str, name: &str, uid: &str, pods: &Pods) -> bool {
    let Some(view) = pods.get(uid).filter(|view| view.terminating.is_none()) else { return false };
    let Some(own) = view.containers.iter().find(|own| own.name == name) else { return false };
    if own.id != id {
        return true;
    }
    let noted = match &own.state {
        ContainerState::Terminated(ended) => ended.id == id,
        _ => own.last.as_ref().is_some_and(|last| last.id == id),
    };
    noted && (own.kind == ContainerKind::Regular || pods.has_ended(uid))
}

/// Whether the container is one of the pod's.
pub fn is_of(container: &ListedContainer, uid: &str) -> bool {
    container.labels.get(POD_UID).is_some_and(|label| label == uid)
}

/// Whether a sandbox may be removed, according to a list read just before: it is not ready and has no
/// containers.
pub fn is_empty_and_dead(listing: &Listing, sandbox: &str) -> bool {
    let ready = |s: &ListedSandbox| s.state == cri::PodSandboxState::SandboxReady as i32;
    listing.sandboxes.iter().any(|s| s.id == sandbox && !ready(s))
        && !listing.containers.iter().any(|c| c.pod_sandbox_id == sandbox)
}

/// What the runtime has of pods: uids of all pods (also other agents'), and runs of containers by uid, name
/// and attempt.
#[derive(Debug, Default)]
pub struct Present {
    pub uids: BTreeSet<String>,
    pub runs: BTreeSet<(String, String, u32)>,
}

impl Present {
    pub fn new(listing: &Listing) -> Self {
        let mut present = Self::default();
        for sandbox in &listing.sandboxes {
            present.uids.extend(sandbox.metadata.as_ref().map(|metadata| metadata.uid.clone()));
            present.uids.extend(sandbox.labels.get(POD_UID).cloned());
        }
        for container in &listing.containers {
            let Some(uid) = container.labels.get(POD_UID) else { continue };
            present.uids.insert(uid.clone());
            if let Some((name, metadata)) =
                container.labels.get(CONTAINER_NAME).zip(container.metadata.as_ref())
            {
                present.runs.insert((uid.clone(), name.clone(), metadata.attempt));
            }
        }
        present
    }
}

fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
