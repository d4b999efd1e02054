//! Shows pods that this agent refuses, so that their status says why.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodewarden_model::{EvictionCause, Origin, PodPhase, PodView, StatusReason};
use nodewarden_pods::status::PodStatusCache;
use tracing::warn;

use super::decode::Refused;
use super::state::RefusedPod;

/// The refused pods whose status is shown, by uid.
#[derive(Debug, Default)]
pub struct Shown(BTreeMap<Box<str>, Refused>);

impl Shown {
    /// Shows these pods as failed, and those no longer that are not among them.
    pub fn show(&mut self, refused: Vec<RefusedPod>, status: &PodStatusCache) {
        let uids: BTreeSet<&str> = refused.iter().map(|pod| &*pod.uid).collect();
        let left: Vec<_> = self.0.keys().filter(|uid| !uids.contains(&***uid)).cloned().collect();
        for uid in left {
            self.0.remove(&uid);
            status.remove(&uid);
        }
        for pod in refused {
            // One that has a worker after all is shown by it.
            let is_new = self.0.get(&pod.uid) != Some(&pod.refused);
            if is_new && (self.0.contains_key(&pod.uid) || !status.contains(&pod.uid)) {
                warn!("pod {}/{} is refused: {}", pod.pod.namespace, pod.pod.name, pod.refused.message);
                status.set(view(&pod));
                self.0.insert(pod.uid, pod.refused);
            }
        }
    }
}

fn view(refused: &RefusedPod) -> PodView {
    let pod = refused.pod.clone();
    PodView {
        origin: Origin::api(format_args!("{}/{}", pod.namespace, pod.name)),
        pod,
        phase: PodPhase::Failed,
        reason: StatusReason::Ended(refused.refused.reason.to_owned()),
        message: format!("Pod was rejected: {}", refused.refused.message),
        started: Timestamp::now(),
        terminating: None,
        ips: Vec::new(),
        sandbox_id: String::new(),
        containers: Vec::new(),
        resize: None,
        resizing: None,
        evicted: Some(EvictionCause::Other),
        unseen: false,
        ended: false,
        api: None,
    }
}
