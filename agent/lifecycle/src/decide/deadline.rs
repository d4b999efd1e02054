//! `activeDeadlineSeconds` (kubelet `activeDeadlineHandler`).

use jiff::Timestamp;

use super::backoff::after;
use nodewarden_eviction::{Eviction, EvictionReason};
use nodewarden_model::{PodPhase, PodView};
use std::time::Duration;

/// Reason and message of a pod that was active for too long.
const REASON: &str = "DeadlineExceeded";
const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// The order to end a pod that has been active for longer than its deadline; `None` if it has time, has no
/// deadline, or ends already.
pub fn overdue(view: &PodView, now: Timestamp) -> Option<Eviction> {
    let seconds = u64::try_from(view.pod.spec.active_deadline_seconds?).unwrap_or_default();
    let active = matches!(view.phase, PodPhase::Pending | PodPhase::Running) && view.terminating.is_none();
    let due = active && now >= after(view.started, Duration::from_secs(seconds));
    due.then(|| Eviction {
        reason: EvictionReason::Other(REASON.to_owned()),
        message: MESSAGE.to_owned(),
        grace: None,
        killed: false,
        condition: None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::fixture::at;
    use nodewarden_manifest::Pod;

    #[test]
    fn a_pod_ends_when_it_was_active_for_as_long_as_it_may_be() {
        for (deadline, phase, terminating, second, expected) in [
            (Some(60), PodPhase::Running, false, 59, false),
            (Some(60), PodPhase::Running, false, 60, true),
            (Some(60), PodPhase::Pending, false, 61, true),
            (Some(60), PodPhase::Running, true, 61, false),
            (Some(60), PodPhase::Succeeded, false, 61, false),
            (Some(60), PodPhase::Failed, false, 61, false),
            (Some(i64::MAX), PodPhase::Running, false, 61, false),
            (None, PodPhase::Running, false, 61, false),
        ] {
            let manifest = json!({"metadata": {"name": "p", "uid": "u"},
                "spec": {"activeDeadlineSeconds": deadline, "containers": [{"name": "c", "image": "i"}]}});
            let pod = Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap();
            let view = PodView {
                pod: Arc::new(pod),
                phase,
                started: at(0),
                terminating: terminating.then(|| at(1)),
                ..nodewarden_model::fixture::pod()
            };
            let found = overdue(&view, at(second));
            assert_eq!(found.is_some(), expected, "{deadline:?} {phase:?} {terminating} {second}");
            assert!(found.is_none_or(|found| found.reason.to_string() == REASON));
        }
    }
}
