//! The status of pods that cannot start yet because another pod is in their way. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::identity::Wait;
use super::observed::Observed;
use super::phase;
use super::plan::Plan;
use super::published::NOTHING;
use crate::record::Record;
use nodewarden_devices::DeviceHealth;
use nodewarden_model::{PodReason, PodView};
use nodewarden_pods::source::SourcedPod;

impl Wait {
    /// The reason in the pod's status.
    fn reason(&self) -> PodReason {
        match self {
            // What is left of an earlier pod with this uid ends as well.
            Self::Ending { .. } | Self::Tidied { .. } => PodReason::PredecessorEnding,
            Self::SameUid { .. } => PodReason::UidInUse,
            Self::Unreadable { .. } => PodReason::ManifestUnreadable,
        }
    }
}

/// The status of each waiting pod: Pending, with what it waits for. `before` are those that waited at the
/// last look; a pod that was among them keeps the time since when it waits.
pub fn views(wait: &[(SourcedPod, Wait)], before: &[Arc<PodView>], now: Timestamp) -> Vec<Arc<PodView>> {
    let since = |sourced: &SourcedPod| {
        let known =
            before.iter().find(|view| view.pod.uid == sourced.pod.uid && view.origin == sourced.origin);
        known.map_or(now, |view| view.started)
    };
    wait.iter().map(|(sourced, wait)| Arc::new(view(sourced, wait, since(sourced)))).collect()
}

fn view(sourced: &SourcedPod, wait: &Wait, since: Timestamp) -> PodView {
    phase::view(&phase::Facts {
        pod: &sourced.pod,
        observed: &Observed::default(),
        record: &Record::new(&sourced.pod, sourced.origin.clone(), since),
        published: &NOTHING,
        plan: &Plan::default(),
        failed: &BTreeMap::new(),
        devices: &DeviceHealth::new(),
        node_ips: &[],
        trouble: Some(&phase::Trouble { reason: wait.reason(), message: wait.to_string() }),
        resize: None,
        resizing: (false, None),
        api: sourced.api.as_ref(),
        ended: false,
    })
}

#[cfg(test)]
mod tests {
    use nodewarden_manifest::Pod;
    use nodewarden_model::{ContainerState, PodPhase, WaitingReason};
    use serde_json::json;

    use super::*;

    fn waiting(uid: &str) -> SourcedPod {
        let manifest = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": uid},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let pod = Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap();
        SourcedPod::new(Arc::new(pod), "/manifests/p.yaml")
    }

    #[test]
    fn each_pod_says_what_it_waits_for() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (wait, reason, message) in [
            (
                Wait::Ending { uid: "u-1".into() },
                "PredecessorEnding",
                "pod u-1 of the same name is still being ended",
            ),
            (
                Wait::Tidied { uid: "u-1".into() },
                "PredecessorEnding",
                "what was left of pod u-1 is still being removed",
            ),
            (
                Wait::SameUid { namespace: "n".into(), name: "q".into() },
                "UidInUse",
                "pod n/q with the same uid still runs",
            ),
            (
                Wait::Unreadable { origin: "/manifests/q.yaml".into() },
                "ManifestUnreadable",
                "a pod of the same name runs from /manifests/q.yaml, which cannot be read",
            ),
        ] {
            let found = views(&[(waiting("u-2"), wait.clone())], &[], at(100));
            let [view] = &found[..] else { panic!("{found:?}") };
            assert_eq!((view.reason.to_string().as_str(), view.message.as_str()), (reason, message));
            assert_eq!((view.phase, view.started, view.terminating), (PodPhase::Pending, at(100), None));
            assert_eq!(view.origin, "/manifests/p.yaml".into());
            let [container] = &view.containers[..] else { panic!("{view:?}") };
            assert!(
                matches!(&container.state, ContainerState::Waiting { reason, .. } if *reason == WaitingReason::ContainerCreating)
            );
            // At the next look it waits since the same time, another pod does not.
            let both = [(waiting("u-2"), wait.clone()), (waiting("u-3"), wait)];
            let since: Vec<_> = views(&both, &found, at(200)).iter().map(|view| view.started).collect();
            assert_eq!(since, [at(100), at(200)]);
        }
        assert_eq!(views(&[], &[], at(1)).len(), 0);
    }
}
