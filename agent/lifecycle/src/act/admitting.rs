//! The admission of a pod: requested before its sandbox is made, held until nothing of it runs any more.

use std::sync::Arc;
use std::time::Duration;

use super::evict;
use crate::decide::phase::Trouble;
use crate::environment::Environment;
use crate::record::Record;
use crate::state::PodState;
use nodewarden_admission::{AdmissionState, Why};
use nodewarden_manifest::{Pod, forbidden_sysctl};
use nodewarden_model::PodReason;

/// How long a pod waits before everything is looked at again, if nothing changes.
const AGAIN: Duration = Duration::from_secs(5);

/// Waits until the pod may start, and shows why it waits. False when the pod is to end.
pub async fn admit(state: &PodState) -> bool {
    let allowed = &state.env.pods.allowed_unsafe_sysctls;
    if state.is_api()
        && let Some(message) = forbidden_sysctl(&state.pod(), allowed)
    {
        evict::reject(state, &PodReason::SysctlForbidden, &message);
        return false;
    }
    let admission = &state.env.admission;
    let mut asked = state.pod();
    let waiter = admission.ask(&asked);
    let mut shown = None;
    loop {
        let pod = state.pod();
        if !Arc::ptr_eq(&pod, &asked) {
            admission.asks(&pod);
            asked = pod;
        }
        let AdmissionState::Waits(why) = waiter.state() else { break };
        if state.is_api()
            && let Some(reason) = why.rejects()
        {
            drop(waiter);
            evict::reject(state, reason, &why.message);
            return false;
        }
        waits(state, &why, &mut shown);
        match state.unless_ending(tokio::time::timeout(AGAIN, waiter.news())).await {
            Some(Ok(())) => {}
            Some(Err(_)) => waiter.again(),
            None => {
                state.note(|inner| inner.trouble = None);
                return false;
            }
        }
    }
    waiter.taken();
    // On disk with what is saved before any container is there; until then the sandbox says so.
    state.set(|inner| inner.record.admitted = true);
    if shown.is_some() {
        state.note(|inner| inner.trouble = None);
    }
    true
}

/// The pod runs, or did when an earlier agent ended: what it holds is not checked.
pub fn enter(env: &Environment, pod: &Arc<Pod>, record: &Record) {
    env.admission.enter(pod);
    // Regular containers start when every init container has finished.
    if pod.containers.iter().any(|own| record.container(&own.name).is_some()) {
        env.admission.initialised(&pod.uid);
    }
}

/// The pod was looked at: where it runs, it holds what it asks for, whatever is known of its admission.
pub fn seen(state: &PodState) {
    let (pod, record) = {
        let inner = state.read();
        let runs = inner.observed.sandboxes.iter().any(|sandbox| sandbox.ready);
        if inner.record.admitted || !runs {
            return;
        }
        (inner.pod.clone(), inner.record.clone())
    };
    enter(&state.env, &pod, &record);
    state.save(|inner| {
        inner.record.admitted = true;
        true
    });
}

/// One event for each new reason; the numbers may change with every look.
fn waits(state: &PodState, why: &Why, shown: &mut Option<PodReason>) {
    let Why { reason: Some(reason), mut message, .. } = why.clone() else { return };
    // The kubelet's words say how many pods can have, not which of them are ill.
    let spare = match &reason {
        PodReason::OutOf(resource) => state.env.devices.spare(resource),
        _ => None,
    };
    if let Some((free, unhealthy)) = spare {
        message.push_str(&format!("; devices free: {free}, unhealthy: {unhealthy}"));
    }
    if shown.as_ref() != Some(&reason) {
        *shown = Some(reason.clone());
        state.env.record_event(&state.pod(), None, &reason.to_string(), message.clone());
    }
    let trouble = Some(Box::new(Trouble { reason, message }));
    if state.read().trouble != trouble {
        state.note(|inner| inner.trouble = trouble);
    }
}
