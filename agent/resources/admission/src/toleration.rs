//! Taints of the node and what tolerates them (component-helpers scheduling/corev1
//! `FindMatchingUntoleratedTaint`, api/core/v1 `Toleration.ToleratesTaint`).

use k8s_openapi::api::core::v1;

/// Taint of the condition `MemoryPressure`.
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// Pods that do not tolerate such a taint are not scheduled to the node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Pods that do not tolerate such a taint do not run on the node.
pub const NO_EXECUTE: &str = "NoExecute";

/// A taint of the node with the effect `NoExecute`: the only effect that a kubelet looks at
/// (pkg/kubelet/lifecycle/predicate.go).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoExecuteTaint {
    /// Its key.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
}

/// Those taints of a node object that have the effect `NoExecute`.
pub fn no_execute(taints: &[v1::Taint]) -> Vec<NoExecuteTaint> {
    let taints = taints.iter().filter(|taint| taint.effect == NO_EXECUTE);
    let read = |taint: &v1::Taint| NoExecuteTaint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
    };
    taints.map(read).collect()
}

/// Whether the toleration is for the taint with this key, value and effect.
pub fn tolerates(toleration: &v1::Toleration, key: &str, value: &str, effect: &str) -> bool {
    let is = |text: &Option<String>, expected: &str| {
        text.as_deref().is_none_or(|text| text.is_empty() || text == expected)
    };
    let fits = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == value,
        "Exists" => true,
        _ => false,
    };
    is(&toleration.effect, effect) && is(&toleration.key, key) && fits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_toleration_fits_by_key_value_and_effect() {
        for (toleration, expected) in [
            (json!({}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu"}), false),
            (json!({"key": "gpu", "value": "broken"}), true),
            (json!({"key": "gpu", "operator": "Equal", "value": "broken", "effect": "NoExecute"}), true),
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}), false),
            (json!({"key": "disk", "operator": "Exists"}), false),
            (json!({"key": "gpu", "operator": "In", "value": "broken"}), false),
        ] {
            let read: v1::Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&read, "gpu", "broken", NO_EXECUTE), expected, "{toleration}");
        }
    }

    #[test]
    fn only_no_execute_taints_are_kept() {
        let read = |taints: Value| no_execute(&serde_json::from_value::<Vec<v1::Taint>>(taints).unwrap());
        let kept = read(json!([
            {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"},
            {"key": "c", "effect": "NoExecute"}, {"key": "d", "value": "x", "effect": "NoExecute"},
        ]));
        let taint = |key: &str, value: &str| NoExecuteTaint { key: key.into(), value: value.into() };
        assert_eq!(kept, [taint("c", ""), taint("d", "x")]);
    }
}
