//! Whether a pod selects this node: `spec.nodeSelector` and the required node affinity (component-helpers
//! scheduling/corev1/nodeaffinity, apimachinery's labels.Requirement).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use nodewarden_manifest::Pod;

/// `kubernetes.io/hostname`.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// `kubernetes.io/os`.
pub const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
/// The operating system of this node.
pub const LINUX: &str = "linux";
/// The only field that terms can match.
const NAME_FIELD: &str = "metadata.name";

/// The labels that the kubelet gives its node.
pub fn node_labels(node_name: &str) -> BTreeMap<String, String> {
    // Go's names of architectures.
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let labels = [
        (HOSTNAME, node_name),
        (OS, LINUX),
        (ARCH, arch),
        ("beta.kubernetes.io/os", LINUX),
        ("beta.kubernetes.io/arch", arch),
    ];
    labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether both match the node; a pod without either matches every node.
pub fn wants_node(pod: &Pod, node_name: &str, labels: &BTreeMap<String, String>) -> bool {
    let spec = pod.spec();
    let selector = spec.node_selector.iter().flatten();
    let mut selector = selector.map(|(name, value)| labels.get(name) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref());
    let fields = BTreeMap::from([(NAME_FIELD.to_owned(), node_name.to_owned())]);
    selector.all(|matches| matches)
        && required
            .is_none_or(|own| own.node_selector_terms.iter().any(|term| applies(term, labels, &fields)))
}

/// An empty term matches no node.
fn applies(
    term: &v1::NodeSelectorTerm,
    labels: &BTreeMap<String, String>,
    fields: &BTreeMap<String, String>,
) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let named = term.match_fields.as_deref().unwrap_or_default();
    !(expressions.is_empty() && named.is_empty())
        && expressions.iter().all(|own| holds(own, labels))
        && named.iter().all(|own| own.key == NAME_FIELD && holds(own, fields))
}

fn holds(requirement: &v1::NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let compare = |is: fn(&i64, &i64) -> bool| {
        let (Some(value), [bound]) = (value, values) else { return false };
        let (Ok(value), Ok(bound)) = (value.parse(), bound.parse()) else { return false };
        is(&value, &bound)
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}
