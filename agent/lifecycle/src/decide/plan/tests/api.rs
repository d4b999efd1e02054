//! What only pods of the API server have: ephemeral containers, and images that change.

use super::*;

fn debugged(more: Value) -> std::sync::Arc<Pod> {
    let mut spec = json!({
        "restartPolicy": "Always", "containers": [{"name": "a", "image": "i"}],
        "ephemeralContainers": [{"name": "e", "image": "j", "targetContainerName": "a"}],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod(spec)
}

#[test]
fn an_ephemeral_container_starts_once() {
    let pod = debugged(json!({}));
    assert_eq!(pod.ephemeral_containers[0].target.as_deref(), Some("a"));
    let a = container("a", 0, Running);
    check(&pod, &with(vec![a.clone()]), &["start e.0"]);
    check(&pod, &with(vec![a.clone(), container("e", 0, Created)]), &["finish e.0"]);
    check(&pod, &with(vec![a.clone(), container("e", 0, Running)]), &[]);
    check(&pod, &with(vec![a.clone(), exited("e", 0, 1)]), &[]);
    // Also when the runtime no longer has it.
    let mut record = record(&pod);
    record.note_start(&pod.ephemeral_containers[0].container, 0);
    record.note_created("e");
    let settings = PodSettings::default();
    assert_eq!(actions(&plan(&pod, &with(vec![a]), &record, &NOTHING, &settings, at(5))), [""; 0]);
}

#[test]
fn an_ephemeral_container_does_not_wait_for_init_containers() {
    let pod = debugged(json!({"initContainers": [{"name": "i", "image": "i"}]}));
    check(&pod, &with(vec![container("i", 0, Running)]), &["start e.0"]);
}

#[test]
fn an_ephemeral_container_keeps_no_pod_from_its_end() {
    let pod = debugged(json!({"restartPolicy": "Never"}));
    let observed = with(vec![exited("a", 0, 0), container("e", 0, Running)]);
    check(&pod, &observed, &["kill e.0 PodEnds", "stop s0"]);
}

#[test]
fn a_container_whose_image_changes_is_started_again_whatever_its_policy() {
    for policy in ["Always", "Never"] {
        let pod = pod(json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "new"}]}));
        let settings = PodSettings::default();
        let next = |record: &Record, containers| {
            actions(&plan(&pod, &with(containers), record, &NOTHING, &settings, at(5)))
        };
        let mut record = record(&pod);
        record.note_start(&pod.containers[0], 0);
        record.note_created("a");
        let runs = || vec![container("a", 0, Running)];
        assert_eq!(next(&record, runs()), [""; 0], "nothing is known of its image");
        record.note_image("a", "new");
        assert_eq!(next(&record, runs()), [""; 0]);
        record.note_image("a", "old");
        assert_eq!(next(&record, runs()), ["kill a.0 Changed"]);
        record.note_kill("a", "a.0", KillReason::Changed);
        let ended = vec![exited("a", 0, 137)];
        record.note_ends(&pod, &with(ended.clone()), &settings);
        assert_eq!(next(&record, ended), ["start a.1"]);
    }
}

#[test]
fn another_image_ends_the_back_off_and_lets_it_begin_again() {
    let pod = pod(json!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "new"}]}));
    let settings = PodSettings::default();
    let next = |record: &Record| {
        let ended = with(vec![exited("a", 4, 1)]);
        actions(&plan(&pod, &ended, record, &NOTHING, &settings, at(5)))
    };
    let mut record = record(&pod);
    record.note_start(&pod.containers[0], 4);
    record.note_image("a", "new");
    record.note_created("a");
    record.containers.get_mut("a").unwrap().failures = 6;
    assert_eq!(next(&record), [""; 0], "it waits for its back-off");
    record.note_image("a", "new");
    assert_eq!(record.container("a").unwrap().failures, 6);

    record.containers.get_mut("a").unwrap().image = Some("old".into());
    assert_eq!(next(&record), ["start a.5"]);
    record.note_image("a", "new");
    assert_eq!(record.container("a").unwrap().failures, 0);
}
