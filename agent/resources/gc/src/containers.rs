//! What the plan of dead containers and sandboxes is made on, from the runtime's list and the board.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_proto::runtime::v1 as cri;

use super::DeadContainer;
use super::plan::SandboxFact;
use nodewarden_cri::Listing;
use nodewarden_manifest::ContainerKind;
use nodewarden_model::{ContainerState, PodPhase, PodView};
use nodewarden_pods::spec::OWNER;
use nodewarden_pods::spec::labels::{CONTAINER_NAME, POD_UID};
use nodewarden_pods::status::Wanted;

/// The node's pods, as far as they matter here.
#[derive(Debug)]
pub struct Pods {
    by_uid: BTreeMap<String, Arc<PodView>>,
    /// Pods that manifests want, also those that have not begun.
    wanted: BTreeSet<String>,
    /// Every manifest could be read: a pod that is not there is gone (kubelet: allSourcesReady).
    whole: bool,
}

impl Pods {
    pub fn new(pods: Vec<Arc<PodView>>, wanted: &Wanted) -> Self {
        Self {
            by_uid: pods.into_iter().map(|view| (view.pod.uid.clone(), view)).collect(),
            wanted: wanted.pods.iter().map(|sourced| sourced.pod.uid.clone()).collect(),
            whole: wanted.whole,
        }
    }

    /// Nobody wants it any more, or it had to make way and nothing of it runs (kubelet `ShouldPodContentBeRemoved`).
    pub fn is_gone(&self, uid: &str) -> bool {
        match self.by_uid.get(uid) {
            None => self.is_forgotten(uid),
            Some(view) => view.terminating.is_none() && view.made_way(),
        }
    }

    /// There is no such pod at all.
    pub fn is_forgotten(&self, uid: &str) -> bool {
        self.whole && !self.by_uid.contains_key(uid) && !self.wanted.contains(uid)
    }

    pub fn get(&self, uid: &str) -> Option<&PodView> {
        self.by_uid.get(uid).map(|view| &**view)
    }

    fn has_ended(&self, uid: &str) -> bool {
        self.get(uid).is_some_and(|view| matches!(view.phase, PodPhase::Succeeded | PodPhase::Failed))
    }
}

/// Dead containers and sandboxes of this agent's.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub dead: Vec<DeadContainer>,
    pub sandboxes: Vec<SandboxFact>,
}

/// Takes what carries the label of `owner`.
pub fn facts(listing: &Listing, owner: &str, pods: &Pods) -> Facts {
    let ours = |labels: &std::collections::HashMap<String, String>| {
        labels.get(OWNER).is_some_and(|label| label == owner)
    };
    let dead = listing.containers.iter().filter(|c| ours(&c.labels)).filter_map(|c| dead(c, pods));
    let sandboxes = listing.sandboxes.iter().filter(|s| ours(&s.labels)).map(|sandbox| {
        let metadata = sandbox.metadata.clone().unwrap_or_default();
        let of_it = listing.containers.iter().filter(|c| c.pod_sandbox_id == sandbox.id);
        SandboxFact {
            id: sandbox.id.clone(),
            attempt: metadata.attempt,
            created: time(sandbox.created_at),
            ready: sandbox.state == cri::PodSandboxState::SandboxReady as i32,
            containers: of_it.map(|c| c.id.clone()).collect(),
            pod_gone: pods.is_gone(&metadata.uid),
            pod_ended: pods.has_ended(&metadata.uid),
            uid: metadata.uid,
        }
    });
    Facts { dead: dead.collect(), sandboxes: sandboxes.collect() }
}

/// None for one that is not to be collected: it runs, or its pod's worker has yet to do something with it.
fn dead(container: &cri::Container, pods: &Pods) -> Option<DeadContainer> {
    let uid = container.labels.get(POD_UID)?.clone();
    let name = container.labels.get(CONTAINER_NAME)?.clone();
    let pod_gone = pods.is_gone(&uid);
    let goes = match cri::ContainerState::try_from(container.state) {
        Ok(cri::ContainerState::ContainerExited) => {
            pod_gone || is_done_with(&container.id, &name, &uid, pods)
        }
        // Of a pod that is still there it is about to be started, or to be ended.
        Ok(cri::ContainerState::ContainerCreated | cri::ContainerState::ContainerUnknown) | Err(_) => {
            pod_gone
        }
        Ok(cri::ContainerState::ContainerRunning) => false,
    };
    goes.then(|| DeadContainer {
        id: container.id.clone(),
        sandbox: container.pod_sandbox_id.clone(),
        uid,
        name,
        attempt: container.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        created: time(container.created_at),
        pod_gone,
    })
}

/// Whether the pod goes on without this ended container: how it ended is noted, and it is not what tells that the init
/// containers have had their turn.
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
    noted && (own.kind == ContainerKind::Ordinary || pods.has_ended(uid))
}

/// What of a sandbox must be so for its removal, in a list that was made just before.
pub fn is_empty_and_dead(listing: &Listing, sandbox: &str) -> bool {
    let ready = |s: &cri::PodSandbox| s.state == cri::PodSandboxState::SandboxReady as i32;
    listing.sandboxes.iter().any(|s| s.id == sandbox && !ready(s))
        && !listing.containers.iter().any(|c| c.pod_sandbox_id == sandbox)
}

/// What the runtime has of pods: uids of anybody's, and runs of containers by uid, name and attempt.
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
#[path = "containers_tests.rs"]
mod tests;
