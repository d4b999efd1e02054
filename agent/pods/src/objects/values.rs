//! Slim values of objects: what pods need of them, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A config map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// `data`.
    pub data: BTreeMap<String, String>,
    /// `binaryData`, decoded.
    pub binary_data: BTreeMap<String, Vec<u8>>,
}

/// A secret. Shown without its values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    /// `type`.
    pub kind: String,
    /// `data`, decoded.
    pub data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.data.keys().collect();
        f.debug_struct("Secret").field("kind", &self.kind).field("keys", &keys).finish_non_exhaustive()
    }
}

/// A request for a token of a service account that is bound to a pod (authentication.k8s.io/v1
/// `TokenRequest`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenRequest {
    /// Namespace of the pod and of its service account.
    pub namespace: String,
    /// Name of the service account.
    pub account: String,
    /// Name of the pod.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// Who the token is for; empty for the API server itself.
    pub audience: String,
    /// How long it is to be valid, in seconds.
    pub expiration_seconds: i64,
}

/// A service with an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `spec.clusterIP`.
    pub ip: String,
    /// `spec.ports`, in their order.
    pub ports: Vec<ServicePort>,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty for a service's only port.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Its number.
    pub port: i32,
}

/// A persistent volume that is a path of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundVolume {
    /// Name of the persistent volume.
    pub name: String,
    /// The path on the node.
    pub path: PathBuf,
    /// `hostPath.type`; empty for none, and for local volumes `Directory`.
    pub path_type: String,
    /// Whether it is a local volume, which belongs to the pod's `fsGroup`; a `hostPath` keeps its owners.
    pub is_local: bool,
    /// `spec.nodeAffinity.required.nodeSelectorTerms` of the volume: the node has to match one of them; empty
    /// for any node.
    pub node_terms: Vec<Vec<NodeRequirement>>,
}

/// One requirement of a node selector's term, on a label of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRequirement {
    /// The label, or `metadata.name`.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// The operator's values.
    pub values: Vec<String>,
}

impl NodeRequirement {
    /// Whether a node of this name with these labels meets the requirement (component-helpers nodeaffinity).
    pub fn matches(&self, node: &str, labels: &BTreeMap<String, String>) -> bool {
        let found =
            if self.key == "metadata.name" { Some(node) } else { labels.get(&self.key).map(String::as_str) };
        let is_listed = |value: &str| self.values.iter().any(|listed| listed == value);
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
        let wanted = number(self.values.first().map(String::as_str));
        match self.operator.as_str() {
            "In" => found.is_some_and(is_listed),
            "NotIn" => !found.is_some_and(is_listed),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => number(found).zip(wanted).is_some_and(|(found, wanted)| found > wanted),
            "Lt" => number(found).zip(wanted).is_some_and(|(found, wanted)| found < wanted),
            _ => false,
        }
    }
}

impl BoundVolume {
    /// Whether the volume may be used on a node of this name with these labels.
    pub fn is_on(&self, node: &str, labels: &BTreeMap<String, String>) -> bool {
        let term = |term: &Vec<NodeRequirement>| {
            !term.is_empty() && term.iter().all(|requirement| requirement.matches(node, labels))
        };
        self.node_terms.is_empty() || self.node_terms.iter().any(term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_used_only_on_a_node_that_matches_its_affinity() {
        let labels: BTreeMap<String, String> =
            [("zone", "a"), ("rank", "5")].map(|(k, v)| (k.into(), v.into())).into();
        let term = |key: &str, operator: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            vec![NodeRequirement { key: key.into(), operator: operator.into(), values }]
        };
        let is_on = |node_terms: Vec<Vec<NodeRequirement>>| {
            let volume = BoundVolume {
                name: "v".into(),
                path: "/x".into(),
                path_type: String::new(),
                is_local: false,
                node_terms,
            };
            volume.is_on("n1", &labels)
        };
        assert!(is_on(vec![]));
        assert!(!is_on(vec![vec![]]));
        for (key, operator, values, good) in [
            ("zone", "In", &["b", "a"][..], true),
            ("zone", "In", &["b"], false),
            ("none", "In", &["b"], false),
            ("none", "NotIn", &["b"], true),
            ("zone", "NotIn", &["a"], false),
            ("zone", "Exists", &[], true),
            ("zone", "DoesNotExist", &[], false),
            ("rank", "Gt", &["4"], true),
            ("rank", "Lt", &["5"], false),
            ("metadata.name", "In", &["n1"], true),
            ("zone", "Near", &["a"], false),
        ] {
            assert_eq!(is_on(vec![term(key, operator, values)]), good, "{key} {operator} {values:?}");
        }
        assert!(is_on(vec![term("zone", "In", &["b"]), term("zone", "In", &["a"])]));
    }

    #[test]
    fn a_secret_is_shown_without_its_values() {
        let secret = Secret { kind: "Opaque".into(), data: [("k".to_owned(), b"hidden".to_vec())].into() };
        let shown = format!("{secret:?}");
        assert!(shown.contains("\"k\"") && !shown.contains("hidden") && !shown.contains("104"), "{shown}");
    }
}
