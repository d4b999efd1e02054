//! `nodeLabels`: the labels that a node may set on its own object (ValidateKubeletFlags, IsKubeletLabel).

use std::collections::BTreeMap;

use nodewarden_manifest::names::is_label;

use crate::fields::{Fields, join};

const KEY: &str = "nodeLabels";

/// Labels below `kubernetes.io` and `k8s.io` that a kubelet may set on its node.
const ALLOWED: [&str; 13] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "kubernetes.io/os",
    "kubernetes.io/arch",
];

/// Domains whose labels are all allowed, also below them.
const DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub(super) fn take(f: &mut Fields<'_>) -> BTreeMap<String, String> {
    let labels = f.text_map(KEY).unwrap_or_default();
    for (key, value) in &labels {
        let field = join(KEY, key);
        if !is_label(key, value) {
            f.refuse(&field, value, "a label: a qualified name and at most 63 letters, digits, -, _ and .");
        } else if !may_set(key) {
            let expected = "a label outside of kubernetes.io and k8s.io, below kubelet.kubernetes.io or \
                            node.kubernetes.io, or one of the well-known ones";
            f.refuse(&field, value, expected);
        }
    }
    labels
}

/// Whether a node may set this label on itself (NodeRestriction refuses others).
fn may_set(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    let below = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    if !below("kubernetes.io") && !below("k8s.io") {
        return true;
    }
    ALLOWED.contains(&key) || DOMAINS.into_iter().any(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_kubernetes_are_only_those_that_a_node_may_set() {
        for (key, allowed) in [
            ("zone", true),
            ("example.com/zone", true),
            ("kubernetes.io/os", true),
            ("node.kubernetes.io/pool", true),
            ("a.node.kubernetes.io/pool", true),
            ("kubelet.kubernetes.io/x", true),
            ("topology.kubernetes.io/zone", true),
            ("node-role.kubernetes.io/master", false),
            ("node-restriction.kubernetes.io/x", false),
            ("kubernetes.io/role", false),
            ("x.k8s.io/role", false),
            ("notkubernetes.io/role", true),
        ] {
            assert_eq!(may_set(key), allowed, "{key}");
        }
    }
}
