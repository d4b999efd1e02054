use std::cell::Cell;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::amounts::{amount, wants};
use super::super::ports::host_ports;
use super::super::selector::node_labels;
use super::*;

const GPU: &str = "foo.com/bar";

fn pod(spec: Value) -> Pod {
    let labels = spec["labels"].clone();
    let manifest = json!({"metadata": {"name": "p", "uid": "u", "labels": labels}, "spec": spec});
    Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap()
}

fn asking(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

/// Capacity, what other pods hold, and the conditions that are true.
struct Case {
    capacity: Vec<(&'static str, i64)>,
    used: Amounts,
    others: Vec<Pod>,
    pressure: Vec<NodeCondition>,
    taints: Vec<NoExecuteTaint>,
    critical: bool,
}

impl Default for Case {
    fn default() -> Self {
        let capacity =
            vec![(CPU, 10), (MEMORY, 20), (PODS, 32), (EPHEMERAL_STORAGE, 20), ("hugepages-2Mi", 5)];
        Self {
            capacity,
            used: Amounts::new(),
            others: Vec::new(),
            pressure: Vec::new(),
            taints: Vec::new(),
            critical: false,
        }
    }
}

impl Case {
    fn with_other(other: Value) -> Self {
        let other = pod(other);
        Self { used: wants(&other), others: vec![other], ..Self::default() }
    }

    fn check(&self, spec: Value) -> Vec<Refusal> {
        self.check_pod(&pod(spec))
    }

    fn check_pod(&self, pod: &Pod) -> Vec<Refusal> {
        let pressure = self.pressure.iter().map(|own| (*own, Timestamp::UNIX_EPOCH)).collect();
        let ports: Vec<HostPort> = self.others.iter().flat_map(host_ports).collect();
        let node = NodeState {
            shutting_down: false,
            node_name: "machine1",
            labels: Some(&node_labels("machine1")),
            taints: &self.taints,
            pressure: &Pressure(pressure),
            capacity: &|name| self.capacity.iter().find(|(own, _)| *own == name).map(|(_, amount)| *amount),
            used: &|name| amount(&self.used, name),
            port_taken: &|port| ports.iter().any(|other| other.conflicts(port)),
        };
        let (wants, ports) = (wants(pod), host_ports(pod));
        check(&Request { pod, wants: &wants, ports: &ports, critical: self.critical }, &node)
    }

    fn reasons(&self, spec: Value) -> Vec<String> {
        self.check(spec).iter().map(|refusal| refusal.reason().to_string()).collect()
    }
}

fn lacks(resource: &str, requested: i64, used: i64, capacity: i64) -> Refusal {
    Refusal::Insufficient { resource: resource.into(), requested, used, capacity }
}

#[test]
fn resources() {
    let with_other = || Case::with_other(asking(json!({"cpu": "9m", "memory": 19})));
    assert_eq!(with_other().check(json!({"containers": []})), []);
    let both = Case::with_other(asking(json!({"cpu": "5m", "memory": 19})));
    assert_eq!(
        both.check(asking(json!({"cpu": "8m", "memory": 10}))),
        [lacks(CPU, 8, 5, 10), lacks(MEMORY, 10, 19, 20)]
    );
    assert_eq!(both.check(asking(json!({"cpu": "5m", "memory": 1}))), [], "to the last");
    let full = Case { used: [(PODS.into(), 32), (CPU.into(), 12)].into(), ..Case::default() };
    assert_eq!(
        full.check(json!({"containers": []})),
        [lacks(PODS, 1, 32, 32)],
        "nothing asked is never missing"
    );
    let rest = asking(json!({"ephemeral-storage": 21, "hugepages-2Mi": 6, "memory": 21}));
    let refusals = with_other().check(rest);
    let names: Vec<_> = refusals.iter().filter_map(|own| Some(own.missing()?.0)).collect();
    assert_eq!(names, [MEMORY, EPHEMERAL_STORAGE, "hugepages-2Mi"]);
    assert_eq!(
        lacks(CPU, 500, 1700, 2000).to_string(),
        "Node didn't have enough resource: cpu, requested: 500, used: 1700, capacity: 2000"
    );
    assert_eq!(lacks(CPU, 500, 1700, 2000).missing(), Some((CPU, 200)));
    for (resource, reason) in [
        (CPU, "OutOfcpu"),
        (MEMORY, "OutOfmemory"),
        (EPHEMERAL_STORAGE, "OutOfephemeral-storage"),
        (PODS, "OutOfpods"),
        (GPU, "OutOffoo.com/bar"),
    ] {
        assert_eq!(lacks(resource, 1, 0, 0).reason().to_string(), reason);
    }
}

#[test]
fn devices_without_a_plugin_are_not_checked() {
    let wanted = || asking(json!({GPU: 1}));
    assert_eq!(Case::default().check(wanted()), []);
    let known = |count| Case { capacity: vec![(PODS, 9), (GPU, count)], ..Case::default() };
    assert_eq!(known(0).check(wanted()), [lacks(GPU, 1, 0, 0)]);
    assert_eq!(known(1).check(wanted()), []);
}

#[test]
fn ports() {
    let on = |ports: Value, node: bool| json!({"hostNetwork": node, "containers": [{"name": "c", "ports": ports}]});
    let taken = |first: Value, second: Value| {
        let [one, other] =
            [&first, &second].map(|spec| (spec, if *spec == first { &second } else { &first }));
        let reasons = Case::with_other(one.0.clone()).reasons(one.1.clone());
        assert_eq!(Case::with_other(other.0.clone()).reasons(other.1.clone()), reasons, "either way round");
        reasons == ["NodePorts"]
    };
    let port = |port: i32| json!([{"containerPort": 1, "hostPort": port}]);
    assert!(taken(on(port(123), false), on(port(123), false)));
    assert!(!taken(on(port(123), false), on(port(124), false)));
    let at = |address: &str| json!([{"containerPort": 1, "hostPort": 123, "hostIP": address}]);
    assert!(taken(on(at("10.0.0.1"), false), on(port(123), false)));
    assert!(taken(on(at("10.0.0.1"), false), on(at("10.0.0.1"), false)));
    assert!(!taken(on(at("10.0.0.1"), false), on(at("10.0.0.2"), false)));
    let udp = json!([{"containerPort": 1, "hostPort": 123, "protocol": "UDP"}]);
    assert!(!taken(on(udp, false), on(port(123), false)));
    let inside = json!([{"containerPort": 123}]);
    assert!(taken(on(inside.clone(), true), on(port(123), false)), "on the node's network");
    assert!(!taken(on(inside, false), on(port(123), false)));
    let init = |policy: Value| json!({"initContainers": [{"name": "i", "restartPolicy": policy, "ports": port(123)}], "containers": []});
    assert!(taken(init(json!("Always")), on(port(123), false)));
    assert!(!taken(init(Value::Null), on(port(123), false)));
}

#[test]
fn names_and_selectors() {
    let reasons = |spec: Value| Case::default().reasons(spec);
    let fits = |spec: Value| {
        let reasons = reasons(spec);
        assert!(reasons.is_empty() || reasons == ["NodeAffinity"], "{reasons:?}");
        reasons.is_empty()
    };
    assert_eq!(reasons(json!({"nodeName": "machine2", "containers": []})), ["NodeName"]);
    assert!(fits(json!({"nodeName": "machine1", "containers": []})));
    let select = |selector: Value| fits(json!({"nodeSelector": selector, "containers": []}));
    assert!(select(json!({"kubernetes.io/hostname": "machine1", "kubernetes.io/os": "linux"})));
    assert!(!select(json!({"kubernetes.io/os": "linux", "disk": "ssd"})));
    assert!(!select(json!({"kubernetes.io/hostname": "machine2"})));
    let spec = |terms: Value| {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"affinity": {"nodeAffinity": required}, "containers": []})
    };
    let terms = |terms: Value| fits(spec(terms));
    let term = |key: &str, operator: &str, values: &[&str]| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
    let host = "kubernetes.io/hostname";
    for (key, operator, values, expected) in [
        (host, "In", &["machine0", "machine1"][..], true),
        (host, "In", &["machine0"], false),
        ("foo", "In", &["bar"], false),
        (host, "NotIn", &["machine1"], false),
        (host, "NotIn", &["machine0"], true),
        ("foo", "NotIn", &["bar"], true),
        (host, "Exists", &[], true),
        ("foo", "Exists", &[], false),
        (host, "DoesNotExist", &[], false),
        ("foo", "DoesNotExist", &[], true),
        (host, "Gt", &["1"], false),
        ("foo", "Lt", &["1"], false),
        (host, "Near", &["machine1"], false),
    ] {
        assert_eq!(terms(term(key, operator, values)), expected, "{key} {operator} {values:?}");
    }
    assert!(!terms(json!([])));
    assert!(!terms(json!([{}])), "a term that asks nothing applies to nothing");
    let (good, bad) = (term(host, "Exists", &[])[0].clone(), term("foo", "Exists", &[])[0].clone());
    assert!(terms(json!([bad, good])), "one of them is enough");
    let field =
        |name: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]);
    assert!(terms(field("machine1")));
    assert!(!terms(field("machine2")));
    let mut both = spec(term("foo", "Exists", &[]));
    both["nodeName"] = json!("some-node-name");
    assert_eq!(reasons(both), ["NodeAffinity", "NodeName"]);
}

#[test]
fn numbers_in_labels() {
    let labels = [("cores".to_owned(), "8".to_owned())].into();
    let fits = |operator: &str, value: &str| {
        let term = json!({"matchExpressions": [{"key": "cores", "operator": operator, "values": [value]}]});
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        wants_node(&pod(json!({"affinity": {"nodeAffinity": required}, "containers": []})), "n", &labels)
    };
    assert_eq!(["7", "8", "x"].map(|value| fits("Gt", value)), [true, false, false]);
    assert_eq!(["8", "9", "x"].map(|value| fits("Lt", value)), [false, true, false]);
}

#[test]
fn operating_systems_by_label_and_field() {
    let reasons = |spec: Value| Case::default().reasons(spec);
    let label = |os: &str| reasons(json!({"labels": {"kubernetes.io/os": os}, "containers": []}));
    assert!(label("linux").is_empty());
    assert_eq!(label("dummyOS"), ["PodOSSelectorNodeLabelDoesNotMatch"]);
    let field = |os: &str| reasons(json!({"os": {"name": os}, "containers": []}));
    assert!(field("linux").is_empty());
    assert_eq!(field("windows"), ["PodOSNotSupported"]);
}

#[test]
fn pressure() {
    use NodeCondition::{DiskPressure, MemoryPressure, PidPressure};
    let best_effort = json!({"containers": [{"name": "c"}]});
    let burstable = asking(json!({"cpu": "1m"}));
    let tolerant = |toleration: Value| json!({"tolerations": [toleration], "containers": [{"name": "c"}]});
    let memory = "node.kubernetes.io/memory-pressure";
    let exists = tolerant(json!({"key": memory, "operator": "Exists", "effect": "NoSchedule"}));
    let equal = tolerant(json!({"key": memory}));
    let every = tolerant(json!({"operator": "Exists"}));
    let other_effect = tolerant(json!({"key": memory, "operator": "Exists", "effect": "NoExecute"}));
    let other_value = tolerant(json!({"key": memory, "value": "x"}));
    let other_key = tolerant(json!({"key": "node.kubernetes.io/disk-pressure", "operator": "Exists"}));
    let admits = |conditions: &[NodeCondition], critical: bool, spec: &Value| {
        let case = Case { pressure: conditions.to_vec(), critical, ..Case::default() };
        case.check(spec.clone()).is_empty()
    };
    assert!(admits(&[], false, &best_effort));
    for (spec, admitted) in [
        (&best_effort, false),
        (&burstable, true),
        (&exists, true),
        (&equal, true),
        (&every, true),
        (&other_effect, false),
        (&other_value, false),
        (&other_key, false),
    ] {
        assert_eq!(admits(&[MemoryPressure], false, spec), admitted, "{spec}");
        for conditions in [&[DiskPressure][..], &[PidPressure], &[MemoryPressure, DiskPressure]] {
            assert!(!admits(conditions, false, spec), "{conditions:?} {spec}");
            assert!(admits(conditions, true, spec), "{conditions:?} {spec}");
        }
    }
    let case = Case { pressure: vec![DiskPressure, MemoryPressure], ..Case::default() };
    let refusal = case.check(best_effort).remove(0);
    assert_eq!(refusal.reason().to_string(), "Evicted");
    assert_eq!(refusal.to_string(), "The node had condition: [MemoryPressure DiskPressure]. ");
}

#[test]
fn resources_that_are_not_requested_are_not_checked() {
    let looks = Cell::new(0);
    let node = NodeState {
        shutting_down: false,
        node_name: "n",
        labels: Some(&BTreeMap::new()),
        taints: &[],
        pressure: &Pressure::default(),
        capacity: &|_| {
            looks.set(looks.get() + 1);
            Some(1)
        },
        used: &|_| 0,
        port_taken: &|_| true,
    };
    let pod = pod(json!({"containers": []}));
    let wants = wants(&pod);
    assert_eq!(check(&Request { pod: &pod, wants: &wants, ports: &[], critical: false }, &node), []);
    assert_eq!(looks.get(), 1, "only its place");
}

#[test]
fn a_no_execute_taint_excludes_pods_of_the_api_server_that_do_not_tolerate_it() {
    let taint = |key: &str| NoExecuteTaint { key: key.into(), value: "broken".into() };
    let case = Case { taints: vec![taint("gpu"), taint("disk")], ..Case::default() };
    let check = |kind: PodKind, keys: &[&str]| {
        let tolerations: Vec<Value> =
            keys.iter().map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute"})).collect();
        let pod = Pod { kind, ..pod(json!({"containers": [], "tolerations": tolerations})) };
        case.check_pod(&pod).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let refused = ["Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"];
    assert_eq!(check(PodKind::Api, &[]), refused);
    assert_eq!(check(PodKind::Api, &["gpu"]), refused);
    assert_eq!(check(PodKind::Api, &["gpu", "disk"]), [""; 0]);
    assert_eq!(check(PodKind::Static, &[]), [""; 0]);
    assert_eq!(Refusal::Taint.reason().to_string(), "TaintToleration");
}
