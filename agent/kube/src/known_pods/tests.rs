use futures_util::FutureExt;
use serde_json::json;

use super::*;
use k8s_openapi::api::core::v1;
use nodewarden_model::PodPhase;

fn pod(name: &str, uid: &str, status: serde_json::Value) -> KnownPod {
    let pod = json!({"metadata": {"namespace": "shop", "name": name, "uid": uid}, "status": status});
    KnownPod::of(&serde_json::from_value::<v1::Pod>(pod).unwrap())
}

fn names(changes: &KnownChanges) -> Vec<String> {
    changes.take().iter().map(ToString::to_string).collect()
}

#[test]
fn subscribers_hear_of_what_differs() {
    let known = KnownPods::default();
    known.set(pod("a", "1", json!({})));
    let changes = known.subscribe();
    assert_eq!(names(&changes), ["shop/a"], "what was there before");
    assert!(!known.is_complete());
    known.replace([pod("a", "1", json!({})), pod("b", "2", json!({}))]);
    assert!(known.is_complete() && changes.changed().now_or_never().is_some());
    assert_eq!(names(&changes), ["shop/a", "shop/b"], "all of the first list");
    known.replace([pod("a", "1", json!({})), pod("c", "3", json!({}))]);
    assert_eq!(names(&changes), ["shop/b", "shop/c"]);
    known.set(pod("a", "1", json!({})));
    known.remove(&PodKey::new("shop", "a"), "other uid");
    assert_eq!(names(&changes), [""; 0]);
    known.set(pod("a", "1", json!({"phase": "Running"})));
    known.remove(&PodKey::new("shop", "c"), "3");
    assert_eq!(names(&changes), ["shop/a", "shop/c"]);
    assert_eq!(known.all().len(), 1);
}

#[test]
fn what_is_kept_of_a_pod() {
    let all = json!({
        "metadata": {"namespace": "shop", "name": "a", "uid": "1", "generation": 3,
            "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"kubernetes.io/config.mirror": "beef"}},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}],
            "initContainerStatuses": [{"name": "i", "image": "", "imageID": "", "ready": true, "restartCount": 0}],
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 4}]},
    });
    let known = KnownPod::of(&serde_json::from_value::<v1::Pod>(all).unwrap());
    assert_eq!((known.generation, known.deleting, known.mirror.as_deref()), (3, true, Some("beef")));
    assert_eq!(
        (known.phase, known.restarts_of("c"), known.restarts_of("i")),
        (Some(PodPhase::Running), 4, 0)
    );
    assert_eq!(known.started.unwrap().to_string(), "2026-01-01T00:00:00Z");
    let ready = known.condition("Ready").unwrap();
    assert_eq!(
        (ready.status, ready.since.unwrap().to_string()),
        (ConditionStatus::True, "2026-01-01T00:00:01Z".into())
    );
}

#[test]
fn statuses_that_say_the_same_have_one_digest() {
    let digest = |status: serde_json::Value| pod("a", "1", status).digest;
    let condition = |name: &str, status: &str| json!({"type": name, "status": status});
    let base = digest(
        json!({"phase": "Running", "conditions": [condition("Ready", "True"), condition("Initialized", "True")],
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": "500m"}}]}),
    );
    let same = digest(json!({"phase": "Running", "reason": "", "nominatedNodeName": "x",
        "conditions": [condition("example.com/gate", "False"), condition("Initialized", "True"), condition("Ready", "True")],
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "lastState": {},
            "allocatedResources": {"cpu": "0.5"}}]}));
    assert_eq!(base, same);
    for other in [
        json!({"phase": "Running", "conditions": [condition("Ready", "False"), condition("Initialized", "True")]}),
        json!({"phase": "Running"}),
        json!({"phase": "Running", "reason": "x"}),
    ] {
        assert_ne!(digest(other.clone()), base, "{other}");
    }
}
