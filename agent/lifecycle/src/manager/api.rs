//! What happens to pods of the API server only: their metadata changes while they run, they may be over there
//! before they are here, and they stay until the API server no longer has them.

use std::sync::Arc;
use std::time::Duration;

use super::Manager;
use crate::orders::Order;
use crate::record::{Ending, Record};
use nodewarden_manifest::Pod;
use nodewarden_model::ApiState;
use nodewarden_pods::source::{Deletion, Over, SourcedPod};

/// How long a pod has that the API server no longer has without having asked for its end: it was deleted by
/// force (the kubelet's shortest grace, `minimumGracePeriodInSeconds`).
pub(super) const FORCED: Duration = Duration::from_secs(2);

/// What the API server's pods were last ordered.
#[derive(Debug, Default)]
pub(super) struct OrderedByApi {
    state: Option<Arc<ApiState>>,
    /// Boxed, since most pods never have it.
    over: Option<Box<Over>>,
    forgotten: bool,
}

impl Manager {
    /// Ends what is left of a pod that is being deleted at the API server and has no worker here.
    pub(super) fn finish(&mut self, sourced: SourcedPod, deletion: Deletion) {
        let mut record = Record::new(&sourced.pod, sourced.origin.clone(), deletion.since);
        let (since, grace_seconds) = (deletion.since, deletion.grace.as_secs());
        record.ending = Some(Ending { since, grace_seconds, why: deletion.reason.clone() });
        self.begin(sourced.pod.clone(), record, false, None);
        if let Some(entry) = self.workers.get_mut(&sourced.pod.uid) {
            entry.deletion = Some(Box::new(deletion));
        }
        if let Some(state) = sourced.api {
            self.api_state(&sourced.pod.uid, state);
        }
    }

    /// The API server has it as succeeded or failed.
    pub(super) fn over(&mut self, uid: &str, over: Over) {
        let Some(entry) = self.workers.get_mut(uid) else { return };
        if entry.api.over.as_deref() != Some(&over) {
            entry.api.over = Some(Box::new(over.clone()));
            let _ = entry.orders.send(Order::Over(over));
        }
    }

    /// The API server no longer has it: it ends, and nothing of it is kept.
    pub(super) fn forget(&mut self, uid: &str) {
        let Some(entry) = self.workers.get_mut(uid) else { return };
        if !std::mem::replace(&mut entry.api.forgotten, true) {
            let _ = entry.orders.send(Order::Forget);
        }
    }

    /// What the API server knows of it now.
    pub(super) fn api_state(&mut self, uid: &str, state: Arc<ApiState>) {
        let Some(entry) = self.workers.get_mut(uid) else { return };
        if entry.api.state.as_ref() != Some(&state) {
            entry.api.state = Some(state.clone());
            let _ = entry.orders.send(Order::ApiState(state));
        }
    }

    /// The pod is to be this one, with the resources that it has.
    pub(super) fn update(&mut self, pod: Arc<Pod>) {
        let Some(entry) = self.workers.get_mut(&pod.uid) else { return };
        if !entry.resize.retarget(&pod) {
            entry.kept.pod = pod.clone();
            entry.kept.applied = pod.clone();
        }
        self.env.admission.updated(&pod);
        let _ = entry.orders.send(Order::Update { pod });
    }

    /// Ends the pods of the API server that have been active for longer than they may be. Returns whether
    /// there are pods with such a limit.
    pub(super) fn end_overdue(&self) -> bool {
        let limited = |pod: &Pod| pod.active_deadline_seconds.is_some();
        let mut any = false;
        for (uid, entry) in self.workers.iter().filter(|(_, entry)| !entry.ending && limited(&entry.kept.pod))
        {
            any = true;
            let overdue = || entry.state.upgrade()?.overdue(&*self.env.status.get(uid)?);
            if let Some(eviction) = overdue() {
                self.env.admission.leaving(uid);
                let _ = entry.orders.send(Order::Evict(eviction));
            }
        }
        any
    }
}
