//! Receives the probe results of one container: saves and publishes them, and sends them to the pod's worker.

use std::sync::Weak;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::orders::Order;
use crate::state::{Inner, PodState};
use nodewarden_manifest::ProbeKind;
use nodewarden_pods::probes::{Change, ProbeMemory, ProbeSink};

/// Holds nothing of the pod: it may go at any time.
pub(super) struct Sink {
    pub state: Weak<PodState>,
    pub name: String,
    /// The container's.
    pub id: String,
}

impl ProbeSink for Sink {
    fn keep(&self, memory: &ProbeMemory, change: Option<&Change>) -> BoxFuture<'static, ()> {
        let nothing = std::future::ready(()).boxed();
        let Some(state) = self.state.upgrade() else { return nothing };
        let kept = state.save(|inner| {
            let current = self.is_newest(inner);
            if current {
                let own = inner.record.containers.get_or_default(&self.name);
                own.note_probes(memory);
            }
            current
        });
        let Some(change) = change.filter(|_| kept) else { return nothing };
        let (memory, kind) = (memory.clone(), change.kind);
        // The pod is not held while this waits: with its last holder it would end inside of the engine.
        let (saver, state) = (state.saver(), self.state.clone());
        async move {
            // A failure is in the log.
            drop(saver.settled().await);
            if let Some(state) = state.upgrade() {
                publish(&state, &memory, kind);
            }
        }
        .boxed()
    }

    fn record_event(&self, reason: &'static str, message: String) {
        if let Some(state) = self.state.upgrade() {
            state.env.record_event(&state.pod(), Some((&self.name, &self.id)), reason, message);
        }
    }
}

impl Sink {
    /// The record has room for one container of a name: the newest.
    fn is_newest(&self, inner: &Inner) -> bool {
        inner.observed.newest(&self.name).is_some_and(|newest| newest.id == self.id)
    }
}

/// The worker publishes the status: with two that do so at a time the older one could be the last.
fn publish(state: &PodState, memory: &ProbeMemory, kind: ProbeKind) {
    let is_known = state.set(|inner| {
        let is_known = inner.observed.containers.iter().any(|seen| seen.id == memory.container);
        if is_known {
            inner.probing_mut().published.publish(memory, kind);
        }
        is_known
    });
    if !is_known {
        return;
    }
    // Whether the pod is ready is only shown; the others may ask for something to be done.
    state.order(Order::Probed { look: kind != ProbeKind::Readiness });
}
