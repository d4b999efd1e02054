//! The node object as it is registered, and what an existing one lacks (pkg/kubelet/kubelet_node_status.go:
//! `initialNode`, `tryRegisterWithAPIServer`, `updateDefaultLabels`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::facts::NodeFacts;

/// Says to the attach-detach controller that it attaches volumes for this node.
const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The address that a cloud controller has to report, as given by `--node-ip`.
const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// The taint that a cloud controller removes when it has initialized the node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Labels that are set again where an existing node has another value.
const DEFAULT_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The node as it is registered, without a status.
pub fn initial(facts: &NodeFacts) -> Node {
    let taints: Vec<Taint> = taints(facts);
    Node {
        metadata: ObjectMeta {
            name: Some(facts.name.clone()),
            labels: Some(labels(facts)),
            annotations: Some(annotations(facts)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: facts.provider_id.clone(),
            taints: (!taints.is_empty()).then_some(taints),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

fn labels(facts: &NodeFacts) -> BTreeMap<String, String> {
    let arch = facts.system.architecture;
    let own = [
        ("kubernetes.io/hostname", facts.hostname.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", arch),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.chain(facts.labels.iter().map(|(key, value)| (key.clone(), value.clone()))).collect()
}

fn annotations(facts: &NodeFacts) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([(ATTACH_DETACH.to_owned(), "true".to_owned())]);
    if facts.external_cloud && !facts.node_ips.is_empty() {
        let ips: Vec<String> = facts.node_ips.iter().map(ToString::to_string).collect();
        annotations.insert(PROVIDED_IP.to_owned(), ips.join(","));
    }
    annotations
}

fn taints(facts: &NodeFacts) -> Vec<Taint> {
    let given = facts.taints.iter().map(|taint| {
        let effect: &'static str = taint.effect.into();
        Taint {
            key: taint.key.clone(),
            value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
            effect: effect.to_owned(),
            time_added: None,
        }
    });
    let cloud = facts.external_cloud.then(|| Taint {
        key: UNINITIALIZED.to_owned(),
        value: Some("true".to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    });
    given.chain(cloud).collect()
}

/// A merge patch of the metadata of a node that exists already: default labels and annotations that it lacks.
/// Its taints and its other labels are left alone. `None` if nothing is missing.
pub fn missing(facts: &NodeFacts, existing: &ObjectMeta) -> Option<Value> {
    let empty = BTreeMap::new();
    let has = existing.labels.as_ref().unwrap_or(&empty);
    let differs = |(key, value): &(String, String)| {
        DEFAULT_LABELS.contains(&key.as_str()) && has.get(key) != Some(value)
    };
    let labels: Map<String, Value> =
        labels(facts).into_iter().filter(differs).map(|(key, value)| (key, value.into())).collect();
    let has = existing.annotations.as_ref().unwrap_or(&empty);
    let annotations: Map<String, Value> = annotations(facts)
        .into_iter()
        .filter(|(key, value)| has.get(key) != Some(value))
        .map(|(key, value)| (key, value.into()))
        .collect();
    let mut metadata = Map::new();
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    (!metadata.is_empty()).then(|| json!({ "metadata": metadata }))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::facts;
    use super::*;

    #[test]
    fn a_new_node_has_labels_and_taints() {
        let node = initial(&facts());
        let labels = node.metadata.labels.as_ref().unwrap();
        assert_eq!(labels["kubernetes.io/hostname"], "node-1");
        assert_eq!((labels["kubernetes.io/arch"].as_str(), labels["zone"].as_str()), ("amd64", "a"));
        let taints = node.spec.unwrap().taints.unwrap();
        assert_eq!((taints.len(), taints[0].effect.as_str()), (1, "NoSchedule"));
        assert_eq!(missing(&facts(), &node.metadata), None);
        let cloud = initial(&NodeFacts { external_cloud: true, ..facts() });
        assert_eq!(cloud.spec.unwrap().taints.unwrap()[1].key, UNINITIALIZED);
    }

    #[test]
    fn an_existing_node_keeps_what_others_have_set() {
        let mut existing = initial(&facts()).metadata;
        let labels = existing.labels.as_mut().unwrap();
        labels.insert("zone".into(), "b".into());
        labels.insert("team".into(), "x".into());
        labels.remove("kubernetes.io/os");
        existing.annotations = None;
        assert_eq!(
            missing(&facts(), &existing),
            Some(json!({"metadata": {
                "labels": {"kubernetes.io/os": "linux"},
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            }}))
        );
    }
}
