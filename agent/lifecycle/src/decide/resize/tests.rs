use serde_json::{Value, json};

use super::*;
use crate::fixture;

fn sized(requests: Value, limits: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]})
}

#[track_caller]
fn check(old: Value, new: Value, expected: Change) {
    assert_eq!(change(&fixture::pod(old), &fixture::pod(new)), expected);
}

#[test]
fn changed_cpu_and_memory_resize() {
    let one = || json!({"cpu": "1", "memory": "64Mi"});
    let none = || json!({});
    check(sized(one(), none()), sized(one(), none()), Change::Same);
    check(sized(json!({"cpu": "500m"}), none()), sized(json!({"cpu": "0.5"}), none()), Change::Same);
    check(sized(one(), none()), sized(json!({"cpu": "2", "memory": "64Mi"}), none()), Change::Resize);
    check(sized(one(), none()), sized(json!({"cpu": "1", "memory": "32Mi"}), none()), Change::Resize);
    // Guaranteed stays Guaranteed.
    check(sized(one(), one()), sized(none(), json!({"cpu": "2", "memory": "1Gi"})), Change::Resize);
    check(sized(one(), one()), sized(one(), json!({"cpu": "2", "memory": "64Mi"})), Change::Replace);
    // A limit that is added, and one that is taken away.
    check(sized(one(), none()), sized(one(), json!({"cpu": "2"})), Change::Resize);
    check(sized(one(), json!({"cpu": "2"})), sized(one(), none()), Change::Replace);
    check(sized(one(), none()), sized(json!({"cpu": "1"}), none()), Change::Replace);
    check(sized(none(), none()), sized(one(), none()), Change::Replace);
    // Nothing else is resized.
    let huge = |n: &str| sized(json!({"cpu": "1", "memory": "1Gi"}), json!({"hugepages-2Mi": n}));
    check(huge("4Mi"), huge("8Mi"), Change::Replace);
    let storage = |n: &str| sized(json!({"cpu": "1", "ephemeral-storage": n}), none());
    check(storage("1Gi"), storage("2Gi"), Change::Replace);
}

#[test]
fn of_init_containers_only_sidecars_are_resized() {
    let with = |policy: Value, cpu: &str| {
        json!({"initContainers": [{"name": "i", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}}],
               "containers": [{"name": "c"}]})
    };
    check(with(json!("Always"), "1"), with(json!("Always"), "2"), Change::Resize);
    check(with(Value::Null, "1"), with(Value::Null, "2"), Change::Replace);
    check(with(Value::Null, "1"), with(Value::Null, "1"), Change::Same);
}

#[test]
fn any_other_change_replaces_the_pod() {
    let pod = |more: Value| {
        let mut manifest =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "a"}]}});
        for (pointer, value) in more.as_object().unwrap() {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            manifest.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap()
    };
    let old = pod(json!({}));
    for more in [
        json!({"/metadata/labels": {"a": "b"}}),
        json!({"/metadata/annotations": {"a": "b"}}),
        json!({"/spec/containers/0/image": "b"}),
        json!({"/spec/containers/0/resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}),
        json!({"/spec/resources": {"limits": {"cpu": "1"}}}),
        json!({"/spec/overhead": {"cpu": "1"}}),
        json!({"/spec/terminationGracePeriodSeconds": 1}),
        json!({"/spec/containers/0/resources": {"claims": [{"name": "x"}]}}),
    ] {
        assert_eq!(change(&old, &pod(more.clone())), Change::Replace, "{more}");
    }
    assert_eq!(change(&old, &pod(json!({"/metadata/uid": "other"}))), Change::Same);
    assert_eq!(change(&old, &pod(json!({"/spec/containers/0/resources": {}}))), Change::Same);
}

#[test]
fn the_pod_grows_first_and_shrinks_last() {
    let of = |a: Value, b: Value| {
        fixture::pod(json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "100m"}, "limits": a}},
            {"name": "b", "resources": {"requests": {"cpu": "100m"}, "limits": b}},
            {"name": "same"}]}))
    };
    let old = of(json!({"cpu": "1", "memory": "64Mi"}), json!({"cpu": "3", "memory": "1Gi"}));
    let new = of(json!({"cpu": "2", "memory": "32Mi"}), json!({"cpu": "1", "memory": "2Gi"}));
    let steps = steps(&old, &new);
    assert_eq!(steps.containers, ["a", "b"]);
    assert_eq!(steps.after, *new);
    let limits = steps.before.limits();
    assert_eq!((limits[CPU].to_string(), limits[MEMORY].to_string()), ("5".into(), "2112Mi".into()));
    // What is kept of it says the same.
    assert_eq!(Pod::unchecked(steps.before.to_kubernetes()).unwrap(), steps.before);
}

#[test]
fn a_new_limit_is_set_when_all_containers_have_changed() {
    let of = |limits: Value| fixture::pod(sized(json!({"cpu": "100m", "memory": "64Mi"}), limits));
    let (old, new) = (of(json!({})), of(json!({"memory": "128Mi"})));
    let steps = steps(&old, &new);
    assert_eq!(steps.before.limits().get(MEMORY), None);
    assert_eq!(steps.after.limits()[MEMORY].to_string(), "128Mi");
}

#[test]
fn the_resize_policy_decides_about_a_restart() {
    let pod = |cpu: &str, memory: &str| {
        fixture::pod(json!({"containers": [{
            "name": "c",
            "resources": {"limits": {"cpu": cpu, "memory": memory}},
            "resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                {"resourceName": "memory", "restartPolicy": "RestartContainer"}],
        }]}))
    };
    let old = pod("1", "64Mi");
    let given = old.containers[0].resources.clone();
    let method = |new: &Pod| method(new, &new.containers[0], &given);
    assert_eq!(method(&old), None);
    assert_eq!(method(&pod("1000m", "65536Ki")), None);
    assert_eq!(method(&pod("2", "64Mi")), Some(ResizeMethod::Update));
    assert_eq!(method(&pod("1", "65Mi")), Some(ResizeMethod::Restart));
    assert_eq!(method(&pod("2", "65Mi")), Some(ResizeMethod::Restart));
}
