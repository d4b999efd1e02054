use nodewarden_cri::Labels;
use nodewarden_model::EvictionCause;

use serde_json::json;

use super::*;
use crate::fixture::views::{at, container, ended, pod, sandbox, view, waiting};

fn wanted(complete: bool) -> DesiredPods {
    DesiredPods { complete, ..DesiredPods::default() }
}

fn ids(facts: &Facts) -> Vec<&str> {
    facts.dead.iter().map(|dead| dead.id.as_str()).collect()
}

#[test]
fn only_containers_with_the_owner_label_are_collected() {
    let mut foreign = container("c1", "gone", "c", 0, cri::ContainerState::ContainerExited);
    foreign.labels =
        [(POD_UID, "gone"), (CONTAINER_NAME, "c"), (nodewarden_pods::spec::OWNER, "other")].into();
    let mut bare = foreign.clone();
    bare.labels = Labels::default();
    let ours = container("c2", "gone", "c", 0, cri::ContainerState::ContainerExited);
    let mut foreign_sandbox = sandbox("s1", "gone", 0, false);
    foreign_sandbox.labels = Labels::default();
    let listing = Listing {
        sandboxes: vec![foreign_sandbox, sandbox("s2", "gone", 0, false)],
        containers: vec![foreign, bare, ours],
    };
    let facts = facts(&listing, &Ownership::new("me".into(), false), &Pods::new(Vec::new(), &wanted(true)));
    assert_eq!(ids(&facts), ["c2"]);
    assert_eq!(facts.sandboxes.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["s2"]);
    assert!(facts.dead[0].pod_gone && facts.sandboxes[0].pod_gone);
}

#[test]
fn a_missing_pod_is_gone_only_if_every_manifest_was_read() {
    let known = view(pod("u", json!([{"name": "c", "image": "i"}])), Vec::new());
    let mut evicted = (*view(pod("e", json!([{"name": "c", "image": "i"}])), Vec::new())).clone();
    (evicted.phase, evicted.evicted) = (PodPhase::Failed, Some(EvictionCause::Preemption));
    let mut waits = (*view(pod("w", json!([{"name": "c", "image": "i"}])), Vec::new())).clone();
    // Its containers are still being stopped, and their exits are not recorded.
    (waits.evicted, waits.terminating) = (Some(EvictionCause::NodePressure), Some(at(0)));
    let views = || vec![known.clone(), Arc::new(evicted.clone()), Arc::new(waits.clone())];
    let pods = Pods::new(views(), &wanted(true));
    assert_eq!(["u", "e", "w", "x"].map(|uid| pods.content_can_be_removed(uid)), [false, true, false, true]);
    assert_eq!(["u", "e", "x"].map(|uid| pods.no_longer_exists(uid)), [false, false, true]);
    let pods = Pods::new(views(), &wanted(false));
    assert_eq!(["u", "e", "x"].map(|uid| pods.content_can_be_removed(uid)), [false, true, false]);
    // A pod with a manifest that has not started.
    let sourced = nodewarden_pods::source::SourcedPod::new(known.pod.clone(), "/m");
    let pods = Pods::new(Vec::new(), &DesiredPods { pods: [sourced].into(), complete: true });
    assert!(!pods.content_can_be_removed("u") && pods.content_can_be_removed("x"));
}

/// Which containers may be removed in which states of their pod.
#[test]
fn containers_that_the_pods_worker_needs_are_kept() {
    use cri::ContainerState::{ContainerCreated, ContainerExited, ContainerRunning, ContainerUnknown};
    let spec = json!([{"name": "c", "image": "i"}]);
    let listing = |state| Listing {
        sandboxes: vec![sandbox("s", "u", 0, true)],
        containers: vec![
            container("c.1", "u", "c", 1, state),
            container("c.0", "u", "c", 0, ContainerExited),
        ],
    };
    let own = |views: Vec<Arc<PodView>>, state| {
        let facts =
            facts(&listing(state), &Ownership::new("me".into(), false), &Pods::new(views, &wanted(true)));
        ids(&facts).into_iter().map(String::from).collect::<Vec<_>>()
    };
    let noted = || vec![view(pod("u", spec.clone()), vec![waiting("c", "c.1", Some("c.1"))])];
    assert_eq!(own(noted(), ContainerExited), ["c.1", "c.0"], "how it ended is noted");
    let unnoted = vec![view(pod("u", spec.clone()), vec![waiting("c", "c.1", Some("c.0"))])];
    assert_eq!(own(unnoted, ContainerExited), ["c.0"]);
    for state in [ContainerCreated, ContainerRunning, ContainerUnknown] {
        assert_eq!(own(noted(), state), ["c.0"], "{state:?}");
    }
    let mut ending = (*noted()[0]).clone();
    ending.terminating = Some(at(5));
    assert_eq!(own(vec![Arc::new(ending)], ContainerExited), [""; 0], "its worker removes everything");
    // Of a pod that is gone every container that does not run may be removed.
    for state in [ContainerCreated, ContainerUnknown, ContainerExited] {
        assert_eq!(own(Vec::new(), state), ["c.1", "c.0"], "{state:?}");
    }
    assert_eq!(own(Vec::new(), ContainerRunning), ["c.0"]);
    // The newest init container shows how far the init containers are, until the pod has ended.
    let mut init = ended("c", "c.1");
    init.kind = ContainerKind::Init;
    let running = view(pod("u", spec.clone()), vec![init.clone()]);
    assert_eq!(own(vec![running.clone()], ContainerExited), ["c.0"]);
    let mut over = (*running).clone();
    over.phase = PodPhase::Succeeded;
    assert_eq!(own(vec![Arc::new(over)], ContainerExited), ["c.1", "c.0"]);
}

#[test]
fn sandboxes_are_listed_with_their_containers() {
    let listing = Listing {
        sandboxes: vec![sandbox("s0", "u", 0, false), sandbox("s1", "u", 1, true)],
        containers: vec![container("c", "u", "c", 0, cri::ContainerState::ContainerRunning)],
    };
    let mut over = (*view(pod("u", json!([{"name": "c", "image": "i"}])), Vec::new())).clone();
    over.phase = PodPhase::Failed;
    let facts =
        facts(&listing, &Ownership::new("me".into(), false), &Pods::new(vec![Arc::new(over)], &wanted(true)));
    let states: Vec<_> = facts
        .sandboxes
        .iter()
        .map(|s| (s.id.as_str(), s.attempt, s.ready, s.containers.len(), s.pod_gone, s.pod_ended))
        .collect();
    // The fixture's containers are in sandbox "s".
    assert_eq!(states, [("s0", 0, false, 0, false, true), ("s1", 1, true, 0, false, true)]);
    assert!(is_empty_and_dead(&listing, "s0") && !is_empty_and_dead(&listing, "s1"));
    assert!(!is_empty_and_dead(&listing, "none"), "it is gone");
    let present = Present::new(&listing);
    assert!(present.uids.contains("u") && present.runs.contains(&("u".into(), "c".into(), 0)));
}
