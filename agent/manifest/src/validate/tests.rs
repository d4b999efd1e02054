mod containers;
mod probe;
mod spec;

use serde_json::{Value, json};

use crate::Pod;

pub(super) fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "u-1"}, "spec": spec})
}

fn one(resources: Value) -> Value {
    pod(json!({"containers": [{"name": "c", "resources": resources}]}))
}

/// `field: value expected`, one per problem. Containers without an image get one.
fn problems(mut pod: Value) -> Vec<String> {
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let container = container.as_object_mut().unwrap();
            container.entry("image").or_insert_with(|| json!("i"));
        }
    }
    let pod = serde_json::from_value(pod).unwrap();
    match Pod::from_kubernetes(pod) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
pub(super) fn check(pod: Value, expected: &[&str]) {
    let problems = problems(pod);
    let same =
        problems.len() == expected.len() && problems.iter().zip(expected).all(|(p, e)| p.starts_with(e));
    assert!(same, "{problems:#?} instead of {expected:#?}");
}

#[test]
fn names_uids_and_priorities_are_validated() {
    check(pod(json!({"containers": [{"name": "c"}]})), &[]);
    check(json!({"metadata": {}}), &["metadata.name: is required", "spec.containers: is required"]);
    let all_wrong = json!({
        "metadata": {"name": "Web", "namespace": "a.b", "uid": "../x"},
        "spec": {
            "priority": 5, "priorityClassName": "system-node-critical",
            "initContainers": [{"name": "same"}, {"name": "-"}],
            "containers": [{"name": "same"}, {"name": ""}, {"name": "x", "restartPolicy": "Sometimes"}],
            "ephemeralContainers": [{"name": "e"}],
        },
    });
    check(
        all_wrong,
        &[
            "metadata.name: \"Web\" must be a DNS subdomain",
            "metadata.namespace: \"a.b\" must be a DNS label",
            "spec.initContainers[1].name: \"-\" must be a DNS label",
            "spec.containers[1].name: is required",
            "spec.containers[0].name: \"same\" must be unique among the containers",
            "spec.containers[2].restartPolicy: \"Sometimes\" must be Always, OnFailure or Never",
            "metadata.uid: \"../x\" must be letters, digits and '-'",
            "spec.ephemeralContainers: must not be set",
            "spec.priority: \"5\" must be 2000001000, the priority of spec.priorityClassName system-node-critical",
        ],
    );
}

#[test]
fn amounts_are_validated() {
    let good = json!({
        "limits": {"cpu": "100m", "memory": " 1Gi ", "ephemeral-storage": "1G", "hugepages-2Mi": "4Mi",
                   "nvidia.com/gpu": 1, "x.kubernetes.io/y": "500m"},
        "requests": {"cpu": 0.05, "memory": "1000m"},
    });
    check(one(good), &[]);
    let bad = json!({
        "limits": {"cpu": "-1", "memory": "1e30", "hugepages-2Mi": "3Mi", "hugepages-x": "1", "hugepages-": "1",
                   "cpus": "1", "nvidia.com/gpu": "1500m", "example.com/": "1", "pods": "1"},
        "requests": {"cpu": "-2", "ephemeral-storage": "1e17E"},
    });
    let at = |rest: &str| format!("spec.containers[0].resources.{rest}");
    let expected = [
        at("requests[ephemeral-storage]: \"1e17E\" is not a quantity"),
        at("limits[cpu]: \"-1\" must not be negative"),
        at("limits[cpus]: \"cpus\" must be cpu, memory"),
        at("limits[example.com/]: \"example.com/\" must be cpu, memory"),
        at("limits[hugepages-]: \"hugepages-\" must be cpu"),
        at("limits[hugepages-]: \"1\" must be of a page size"),
        at("limits[hugepages-2Mi]: \"3Mi\" must be a multiple of the page size, 2Mi"),
        at("limits[hugepages-x]: \"1\" must be of a page size"),
        at("limits[memory]: \"1e30\" exceeds what the kernel accepts"),
        at("limits[nvidia.com/gpu]: \"1500m\" must be a whole number"),
        at("limits[pods]: \"pods\" must be cpu"),
        at("requests[cpu]: \"-2\" must not be negative"),
    ];
    check(one(bad), &expected.each_ref().map(String::as_str));
    check(
        pod(json!({"containers": [{"name": "c"}], "overhead": {"cpu": "-1m", "gpu": "1"}})),
        &["spec.overhead[cpu]: \"-1m\" must not be negative", "spec.overhead[gpu]: \"gpu\" must be cpu"],
    );
    check(
        pod(json!({"containers": [{"name": "a", "resources": {"limits": {"memory": "7Ei"}}},
                                  {"name": "b", "resources": {"limits": {"memory": "7Ei"}}}]})),
        &[
            "spec: \"14Ei\" exceeds what the kernel accepts, summed over the requests of memory",
            "spec: \"14Ei\" exceeds what the kernel accepts, summed over the limits of memory",
        ],
    );
}

#[test]
fn requests_are_validated_against_limits() {
    let resources = "spec.containers[0].resources";
    let case = |limits: Value, requests: Value, expected: &[&str]| {
        let expected: Vec<_> = expected.iter().map(|e| format!("{resources}{e}")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check(one(json!({"limits": limits, "requests": requests})), &expected);
    };
    case(
        json!({"cpu": "1", "memory": "1Gi"}),
        json!({"cpu": "1001m", "memory": "1025Mi"}),
        &[
            ".requests[cpu]: \"1001m\" must be at most the limit of 1",
            ".requests[memory]: \"1025Mi\" must be at most the limit of 1Gi",
        ],
    );
    case(
        json!({"cpu": "1", "hugepages-2Mi": "4Mi", "a.b/c": "2"}),
        json!({"hugepages-2Mi": "2Mi", "a.b/c": "1"}),
        &[
            ".requests[a.b/c]: \"1\" must be equal to the limit of 2",
            ".requests[hugepages-2Mi]: \"2Mi\" must be equal to the limit of 4Mi",
        ],
    );
    case(
        json!({"cpu": "1"}),
        json!({"hugepages-1Gi": "1Gi"}),
        &[".limits[hugepages-1Gi]: is required together with a request"],
    );
    case(
        json!({"hugepages-1Gi": "1Gi"}),
        json!({}),
        &[": \"hugepages-1Gi\" must have cpu or memory in addition to huge pages"],
    );
    // A quantity that cannot be parsed is not also reported as missing.
    case(
        json!({"hugepages-1Gi": "1 Gi"}),
        json!({"hugepages-1Gi": "1Gi"}),
        &[".limits[hugepages-1Gi]: \"1 Gi\" is not a quantity"],
    );
}

#[test]
fn resources_of_the_pod_are_validated() {
    let case = |own: Value, containers: Value, expected: &[&str]| {
        check(pod(json!({"resources": own, "containers": containers})), expected);
    };
    let two = |limits: Value| json!([{"name": "a", "resources": {"limits": limits}}, {"name": "b", "resources": {"limits": limits}}]);
    case(json!({"limits": {"cpu": "2", "memory": "2Gi"}}), two(json!({"cpu": "1", "memory": "1Gi"})), &[]);
    case(
        json!({"limits": {"cpu": "2", "ephemeral-storage": "1Gi"}, "requests": {"a.b/c": "1"}, "claims": [{"name": "x"}]}),
        json!([{"name": "a"}]),
        &[
            "spec.resources.limits[ephemeral-storage]: \"ephemeral-storage\" must be cpu, memory or hugepages",
            "spec.resources.requests[a.b/c]: \"a.b/c\" must be cpu, memory or hugepages",
            "spec.resources.claims[0]: \"x\" must be set for a container",
            "spec.resources.limits[a.b/c]: is required together with a request",
        ],
    );
    case(
        json!({"limits": {"cpu": "900m"}, "requests": {"cpu": "800m"}}),
        two(json!({"cpu": "1"})),
        &[
            "spec.resources.requests[cpu]: \"800m\" must be at least the containers' requests together, 2",
            "spec.containers[0].resources.limits[cpu]: \"1\" must be at most the pod's limit of 900m",
            "spec.containers[1].resources.limits[cpu]: \"1\" must be at most the pod's limit of 900m",
        ],
    );
    // The default of the pod's requests is validated too.
    case(
        json!({"limits": {"cpu": "1500m"}}),
        two(json!({"cpu": "1"})),
        &["spec.resources.requests[cpu]: \"2\" must be at most the limit of 1500m"],
    );
    case(
        json!({"limits": {"cpu": "4", "hugepages-2Mi": "6Mi"}}),
        two(json!({"cpu": "1", "hugepages-2Mi": "4Mi"})),
        &[
            "spec.resources.requests[hugepages-2Mi]: \"6Mi\" must be at least the containers' requests together, 8Mi",
            "spec.resources.limits[hugepages-2Mi]: \"6Mi\" must be at least the containers' limits together, 8Mi",
        ],
    );
    case(
        json!({"limits": {"hugepages-2Mi": "6Mi"}}),
        json!([{"name": "a"}]),
        &["spec.resources: \"hugepages-2Mi\" must have cpu or memory"],
    );
    case(
        json!({"limits": {"cpu": "x"}}),
        two(json!({"cpu": "1"})),
        &["spec.resources.limits[cpu]: \"x\" is not a"],
    );
}
