//! `activeDeadlineSeconds` (kubelet `activeDeadlineHandler`).

use std::time::Duration;

use super::backoff::after;
use crate::record::Record;
use nodewarden_eviction::{Eviction, EvictionReason};
use nodewarden_model::{ClockReading, PodPhase, PodView};

/// Reason and message of a pod that was active for too long.
const REASON: &str = "DeadlineExceeded";
const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// The order to end a pod that has been active for longer than its deadline; `None` if it has time, has no
/// deadline, or ends already. The record has since when it is active, moved along if the wall clock was set:
/// what the status shows is from before that.
pub fn overdue(view: &PodView, record: &mut Record, now: &ClockReading) -> Option<Eviction> {
    let seconds = u64::try_from(view.pod.active_deadline_seconds?).unwrap_or_default();
    record.align(now);
    let active = matches!(view.phase, PodPhase::Pending | PodPhase::Running) && view.terminating.is_none();
    let due = active && now.wall >= after(record.accepted, Duration::from_secs(seconds));
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
    use crate::fixture;
    use crate::fixture::at;
    use nodewarden_manifest::Pod;

    /// The clocks at a second, with the wall clock ahead by `step`.
    fn clocks(second: i64, step: i64) -> ClockReading {
        let boot_ns = 1_000_000_000 * u64::try_from(1000 + second).unwrap();
        ClockReading { wall: at(second + step), boot_id: "a".into(), boot_ns }
    }

    fn limited(deadline: Option<i64>) -> PodView {
        let manifest = json!({"metadata": {"name": "p", "uid": "u"},
            "spec": {"activeDeadlineSeconds": deadline, "containers": [{"name": "c", "image": "i"}]}});
        let pod = Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap();
        PodView {
            pod: Arc::new(pod),
            phase: PodPhase::Running,
            started: at(0),
            terminating: None,
            ..nodewarden_model::fixture::pod()
        }
    }

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
            let view = PodView { phase, terminating: terminating.then(|| at(1)), ..limited(deadline) };
            let found = overdue(&view, &mut fixture::record(&view.pod), &clocks(second, 0));
            assert_eq!(found.is_some(), expected, "{deadline:?} {phase:?} {terminating} {second}");
            assert!(found.is_none_or(|found| found.reason.to_string() == REASON));
        }
    }
    /// By an hour's deadline a clock that is set forwards by a day would end the pod at once, one that is set
    /// back would give it a day more.
    #[test]
    fn a_clock_that_is_set_changes_no_deadline() {
        const DAY: i64 = 86_400;
        for step in [0, DAY, -DAY] {
            let view = limited(Some(3600));
            let mut record = fixture::record(&view.pod);
            record.align(&clocks(0, 0));
            for (second, step, expected) in
                [(10, 0, false), (20, step, false), (3599, step, false), (3599, 0, false), (3600, step, true)]
            {
                let found = overdue(&view, &mut record, &clocks(second, step));
                assert_eq!(found.is_some(), expected, "{second} s, set by {step} s");
            }
        }
    }
}
