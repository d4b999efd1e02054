//! Compares with recordings: results of a kubelet's functions for 500 pods, and QoS classes set by a real
//! kubelet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Pod, ResourceList, Resources};

/// Reads a recording.
pub(super) fn load<T: DeserializeOwned>(file: &str) -> Option<T> {
    nodewarden_testing::golden::load(file)
        .map(|value| serde_json::from_value(value).expect("a recording of the expected form"))
}

type Amounts = BTreeMap<String, String>;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Defaulted {
    limits: Amounts,
    requests: Amounts,
}

#[derive(Debug, Deserialize)]
struct Case {
    pod: v1::Pod,
    defaulted_resources: BTreeMap<String, Defaulted>,
    qos: String,
    pod_requests: Amounts,
    pod_limits: Amounts,
}

fn written(list: &ResourceList) -> Amounts {
    list.iter().map(|(name, quantity)| (name.clone(), quantity.to_string())).collect()
}

fn defaulted(pod: &Pod) -> BTreeMap<String, Defaulted> {
    let of = |r: &Resources| Defaulted { limits: written(&r.limits), requests: written(&r.requests) };
    let containers = pod.containers.iter().chain(&pod.init_containers);
    let mut all: BTreeMap<_, _> = containers.map(|c| (c.name.clone(), of(&c.resources))).collect();
    all.extend(pod.resources.as_ref().map(|own| ("<pod>".to_owned(), of(own))));
    all
}

/// Corrects a mistake of the recorder: for one of the 500 pods it recorded the defaults after the overhead
/// (20Mi) had been added to them three times. Its `pod_requests`, recorded before, contains the overhead
/// once.
fn correct_recording(pod: &str, recorded: &mut BTreeMap<String, Defaulted>) {
    if let Some(memory) = recorded.get_mut("<pod>").and_then(|r| r.requests.get_mut("memory"))
        && (pod, memory.as_str()) == ("p19", "572Mi")
    {
        *memory = "512Mi".into();
    }
}

/// The generated pods have well-formed quantities but break other rules of the API server, so they are not
/// validated.
#[test]
fn resources_and_classes_are_those_of_the_kubelets_functions() {
    let Some(cases) = load::<Vec<Case>>("pods.json") else { return };
    assert!(!cases.is_empty());
    for case in cases {
        let pod = Pod::unchecked(case.pod).expect("quantities");
        let name = &pod.name;
        let mut recorded = case.defaulted_resources;
        correct_recording(name, &mut recorded);
        assert_eq!(defaulted(&pod), recorded, "{name}: defaulted_resources");
        assert_eq!(pod.qos.to_string(), case.qos, "{name}: qos");
        assert_eq!(written(&pod.requests()), case.pod_requests, "{name}: pod_requests");
        assert_eq!(written(&pod.limits()), case.pod_limits, "{name}: pod_limits");
    }
}

#[test]
fn classes_and_priorities_are_those_of_recorded_kubelets() {
    for file in
        ["kubelet-v1.json", "kubelet-v2-systemd.json", "kubelet-v2-cgroupfs.json", "kubelet-v2-memqos.json"]
    {
        let Some(recording) = load::<Value>(file) else { return };
        let batches = recording["batches"].as_object().expect("batches");
        let pods = batches.values().flat_map(|batch| batch["pods"].as_object().expect("pods"));
        let mut seen = 0;
        for (name, recorded) in pods {
            let manifest = serde_json::from_value(recorded["spec"].clone()).expect("a pod");
            let pod = Pod::from_kubernetes(manifest).unwrap_or_else(|e| panic!("{file}: {name}: {e:?}"));
            assert_eq!(&pod.name, name, "{file}");
            assert_eq!(
                Some(pod.qos.to_string().as_str()),
                recorded["qos"].as_str().or(recorded["qos_by_path"].as_str()),
                "{file}: {name}"
            );
            assert_eq!(pod.is_node_critical(), name.contains("nodecritical"), "{file}: {name}");
            assert_eq!(pod.is_critical(), name.contains("critical"), "{file}: {name}");
            seen += 1;
        }
        assert!(seen > 0, "{file}");
    }
}
