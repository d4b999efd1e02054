//! Defaults, totals and the class: cases that the recordings do not contain, and properties of every pod.

use k8s_openapi::api::core::v1::{self, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::names::{CPU, MEMORY, is_compute};
use super::priority::{SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL};
use super::resources::add;
use super::*;

fn read(spec: Value) -> Pod {
    Pod::unchecked(
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec})).unwrap(),
    )
    .unwrap()
}

fn written(list: &ResourceList) -> String {
    list.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn init_containers_may_need_more_than_running_containers() {
    let request = |name: &str, cpu: &str, always: bool| {
        let policy = if always { json!("Always") } else { Value::Null };
        json!({"name": name, "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    };
    let total = |init: &[Value]| {
        let pod = read(json!({"initContainers": init, "containers": [request("c", "1", false)]}));
        let (requests, limits) = (pod.requests(), pod.limits());
        assert_eq!(requests, limits);
        requests[CPU].to_string()
    };
    assert_eq!(total(&[]), "1");
    assert_eq!(total(&[request("i", "3", false)]), "3");
    assert_eq!(total(&[request("s", "2", true)]), "3");
    // An init container runs together with the sidecars before it, not with those after it.
    assert_eq!(total(&[request("s", "2", true), request("i", "3", false)]), "5");
    assert_eq!(total(&[request("i", "3", false), request("s", "2", true)]), "3");
    assert_eq!(total(&[request("a", "1", true), request("i", "4", false), request("b", "5", true)]), "7");
    // In the end all sidecars run together with the containers.
    assert_eq!(total(&[request("a", "500m", true), request("b", "250m", true)]), "1750m");
}

#[test]
fn overhead_is_added_to_existing_limits() {
    let pod = read(json!({
        "overhead": {"cpu": "50m", "memory": "10Mi", "ephemeral-storage": "1Gi"},
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "0"}}}],
    }));
    assert_eq!(written(&pod.requests()), "cpu=1050m ephemeral-storage=1Gi memory=10Mi");
    assert_eq!(written(&pod.limits()), "cpu=1050m memory=0");
}

#[test]
fn huge_pages_of_containers_are_defaults_of_the_pod() {
    let two = json!([
        {"name": "a", "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}},
        {"name": "b", "resources": {"limits": {"hugepages-2Mi": "2Mi", "hugepages-1Gi": "1Gi", "a.b/c": "1"}}},
    ]);
    let at_pod = |own: Value| {
        let pod = read(json!({"resources": own, "containers": two}));
        let own = pod.resources.as_ref().unwrap();
        [written(&own.requests), written(&own.limits), written(&pod.requests()), written(&pod.limits())]
    };
    let pages = "hugepages-1Gi=1Gi hugepages-2Mi=6Mi";
    assert_eq!(
        at_pod(json!({"limits": {"memory": "1Gi"}})),
        [
            format!("cpu=1 {pages} memory=1Gi"),
            format!("{pages} memory=1Gi"),
            format!("a.b/c=1 cpu=1 {pages} memory=1Gi"),
            format!("a.b/c=1 cpu=1 {pages} memory=1Gi"),
        ]
    );
    // With a request alone, the containers' huge pages become a limit of the pod, and that limit a request.
    assert_eq!(
        at_pod(json!({"requests": {"cpu": "2"}})),
        [
            format!("cpu=2 {pages}"),
            pages.to_owned(),
            format!("a.b/c=1 cpu=2 {pages}"),
            format!("a.b/c=1 cpu=1 {pages}"),
        ]
    );
    // A request for the page size is kept.
    assert_eq!(
        at_pod(json!({"requests": {"hugepages-2Mi": "8Mi", "hugepages-1Gi": "1Gi"}}))[..2],
        ["hugepages-1Gi=1Gi hugepages-2Mi=8Mi", ""]
    );
    // If the pod's own resources are empty, nothing is filled in.
    assert_eq!(at_pod(json!({}))[..2], ["", ""]);
}

/// The API server fills in defaults first and rounds afterwards.
#[test]
fn defaults_come_from_amounts_before_rounding() {
    let pod = read(json!({
        "resources": {"limits": {"cpu": "1"}},
        "containers": [
            {"name": "a", "resources": {"limits": {"cpu": "100u"}}},
            {"name": "b", "resources": {"requests": {"cpu": "0.0003", "memory": "1500m"}}},
        ],
    }));
    assert_eq!(written(&pod.resources.as_ref().unwrap().requests), "cpu=1m memory=1500m");
    assert_eq!(written(&pod.containers_requests()), "cpu=2m memory=1500m");
    assert_eq!(written(&pod.containers[0].resources.requests), "cpu=1m");
}

#[test]
fn classes_follow_from_cpu_and_memory() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let class = |containers: &[&Value], own: Value| {
        let containers = containers.iter().map(|r| json!({"name": "c", "resources": r})).collect::<Vec<_>>();
        read(json!({"containers": containers, "resources": own})).qos
    };
    let (none, null) = (json!({}), Value::Null);
    assert_eq!(class(&[&none, &none], null.clone()), BestEffort);
    assert_eq!(class(&[&both, &both], null.clone()), Guaranteed);
    assert_eq!(class(&[&both, &none], null.clone()), Burstable);
    assert_eq!(class(&[&json!({"limits": {"cpu": "1"}})], null.clone()), Burstable);
    assert_eq!(
        class(&[&json!({"limits": {"cpu": "0", "memory": "0", "a.b/c": "1"}})], null.clone()),
        BestEffort
    );
    let equal =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
    assert_eq!(class(&[&equal], null.clone()), Guaranteed);
    let zero = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0"}});
    assert_eq!(class(&[&zero], null.clone()), Burstable);
    // The pod's own resources decide if the field exists, even if it is empty.
    assert_eq!(class(&[&none], both.clone()), Guaranteed);
    assert_eq!(class(&[&both], json!({"limits": {"memory": "4Gi"}})), Burstable);
    assert_eq!(class(&[&both], none.clone()), BestEffort);
    // Init containers count.
    let init = json!({"containers": [{"name": "c", "resources": both}], "initContainers": [{"name": "i"}]});
    assert_eq!(read(init).qos, Burstable);
}

#[test]
fn priorities_come_from_the_number_or_the_class() {
    let of = |spec: Value| {
        let pod = read(spec);
        (pod.priority, pod.is_critical(), pod.is_node_critical())
    };
    assert_eq!(of(json!({})), (0, false, false));
    assert_eq!(of(json!({"priority": 1_999_999_999})), (1_999_999_999, false, false));
    assert_eq!(of(json!({"priority": 2_000_000_000})), (2_000_000_000, true, false));
    assert_eq!(of(json!({"priority": 2_000_001_000})), (2_000_001_000, true, false));
    assert_eq!(of(json!({"priorityClassName": "mine", "priority": 7})), (7, false, false));
    assert_eq!(of(json!({"priorityClassName": "mine"})), (0, false, false));
    assert_eq!(of(json!({"priorityClassName": SYSTEM_CLUSTER_CRITICAL})), (2_000_000_000, true, false));
    assert_eq!(of(json!({"priorityClassName": SYSTEM_NODE_CRITICAL})), (2_000_001_000, true, true));
}

fn amount() -> impl Strategy<Value = Option<Text>> {
    let texts = ["0", "1m", "100m", "250m", "1", "1.5", "2", "8Mi", "64Mi", "1Gi", "1e9", "123456789"];
    prop::option::of(prop::sample::select(texts.to_vec()).prop_map(|text| Text(text.to_owned())))
}

fn list() -> impl Strategy<Value = Option<BTreeMap<String, Text>>> {
    let names = [CPU, MEMORY, "hugepages-2Mi", "a.b/c"];
    prop::array::uniform4(amount()).prop_map(move |amounts| {
        let named =
            names.iter().zip(amounts).filter_map(|(name, amount)| Some(((*name).to_owned(), amount?)));
        Some(named.collect())
    })
}

fn requirements() -> impl Strategy<Value = Option<v1::ResourceRequirements>> {
    let both = (list(), list());
    prop::option::of(both.prop_map(|(limits, requests)| v1::ResourceRequirements {
        limits,
        requests,
        ..Default::default()
    }))
}

fn container() -> impl Strategy<Value = v1::Container> {
    ("[a-z]{8}", prop::bool::ANY, requirements()).prop_map(|(name, sidecar, resources)| v1::Container {
        name,
        image: Some("i".to_owned()),
        restart_policy: sidecar.then(|| "Always".to_owned()),
        resources,
        ..Default::default()
    })
}

fn pod() -> impl Strategy<Value = v1::Pod> {
    let containers = prop::collection::vec(container(), 1..4);
    let init = prop::collection::vec(container(), 0..4);
    (containers, init, list(), prop::option::weighted(0.3, requirements())).prop_map(
        |(containers, init, overhead, own)| {
            let mut pod = v1::Pod::default();
            pod.metadata.name = Some("p".to_owned());
            pod.spec = Some(PodSpec {
                containers,
                init_containers: Some(init),
                overhead,
                resources: own.flatten(),
                ..Default::default()
            });
            pod
        },
    )
}

fn at_least(more: &ResourceList, less: &ResourceList) -> bool {
    less.iter().all(|(name, quantity)| more.get(name).is_some_and(|more| more >= quantity))
}

/// The manifest with the defaults written into it.
fn with_defaults(mut manifest: v1::Pod, pod: &Pod) -> v1::Pod {
    let text = |list: &ResourceList| list.iter().map(|(n, q)| (n.clone(), Text(q.to_string()))).collect();
    let resources = |r: &Resources| v1::ResourceRequirements {
        limits: Some(text(&r.limits)),
        requests: Some(text(&r.requests)),
        ..Default::default()
    };
    let spec = manifest.spec.as_mut().unwrap();
    let all = spec.containers.iter_mut().chain(spec.init_containers.as_mut().unwrap());
    for (container, read) in all.zip(pod.containers.iter().chain(&pod.init_containers)) {
        container.resources = Some(resources(&read.resources));
    }
    spec.resources = pod.resources.as_ref().map(resources);
    manifest
}

proptest! {
    #[test]
    fn totals_cover_every_stage_of_a_pod(manifest in pod()) {
        let pod = Pod::unchecked(manifest).unwrap();
        let mut running = ResourceList::new();
        let mut sidecars = ResourceList::new();
        for init in &pod.init_containers {
            let mut step = sidecars.clone();
            add(&mut step, &init.resources.requests);
            prop_assert!(at_least(&pod.containers_requests(), &step));
            if init.kind == ContainerKind::Sidecar {
                sidecars = step;
            }
        }
        add(&mut running, &sidecars);
        for container in &pod.containers {
            let Resources { requests, limits } = &*container.resources;
            prop_assert!(limits.keys().all(|name| requests.contains_key(name)));
            add(&mut running, requests);
        }
        prop_assert!(at_least(&pod.containers_requests(), &running));
        prop_assert!(at_least(&pod.requests(), &pod.overhead));
        if pod.resources.is_none() {
            prop_assert!(at_least(&pod.requests(), &pod.containers_requests()));
            prop_assert!(at_least(&pod.limits(), &pod.containers_limits()));
        }
    }

    #[test]
    fn classes_match_their_definitions(manifest in pod()) {
        let pod = Pod::unchecked(manifest.clone()).unwrap();
        let compute = |mut list: ResourceList| {
            list.retain(|name, quantity| is_compute(name) && quantity.is_positive());
            list
        };
        let bare = Pod { overhead: ResourceList::new(), ..pod.clone() };
        let (requests, limits) = (compute(bare.requests()), compute(bare.limits()));
        match pod.qos {
            QosClass::Guaranteed => {
                prop_assert_eq!(requests.len(), 2);
                if pod.resources.is_some() {
                    prop_assert_eq!(&requests, &limits);
                }
            }
            QosClass::BestEffort if pod.resources.is_none() => {
                prop_assert!(requests.is_empty() && limits.is_empty());
            }
            _ => {}
        }
        let mut turned = manifest;
        turned.spec.as_mut().unwrap().containers.reverse();
        let turned = Pod::unchecked(turned).unwrap();
        prop_assert_eq!(turned.qos, pod.qos);
        prop_assert_eq!(turned.requests(), pod.requests());
    }

    #[test]
    fn defaults_are_filled_in_once(manifest in pod()) {
        let once = Pod::unchecked(manifest.clone()).unwrap();
        let twice = Pod::unchecked(with_defaults(manifest, &once)).unwrap();
        prop_assert_eq!(Pod { kept_spec: once.kept_spec.clone(), ..twice }, once);
    }

    #[test]
    fn requests_of_a_valid_pod_are_within_its_limits(manifest in pod()) {
        let Ok(pod) = Pod::from_kubernetes(manifest) else { return Ok(()) };
        for container in pod.containers.iter().chain(&pod.init_containers) {
            let Resources { requests, limits } = &*container.resources;
            prop_assert!(limits.iter().all(|(name, limit)| &requests[name] <= limit));
        }
        if pod.qos == QosClass::Guaranteed && pod.resources.is_none() {
            for container in pod.containers.iter().chain(&pod.init_containers) {
                let Resources { requests, limits } = &*container.resources;
                prop_assert!([CPU, MEMORY].iter().all(|name| requests[*name] == limits[*name]));
            }
        }
        if let Some(own) = &pod.resources {
            let over = own.requests.iter().any(|(name, q)| pod.containers_requests().get(name).is_some_and(|c| c > q));
            prop_assert!(!over);
        }
    }
}
