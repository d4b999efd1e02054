//! A pod's status as one number, by which two of them are compared without keeping either.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1;
use nodewarden_manifest::Quantity;
use serde_json::Value;

/// Conditions that the node's agent writes (kubelet `PodConditionByKubelet` and
/// `PodConditionSharedByKubelet`). All others belong to others, and are left as they are.
const OWN_CONDITIONS: &[&str] = &[
    "PodScheduled",
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
    "DisruptionTarget",
];

/// Whether the node's agent writes conditions of this type.
pub fn is_own_condition(name: &str) -> bool {
    OWN_CONDITIONS.contains(&name)
}

/// A number that is the same for two statuses that say the same: whatever the order of their conditions and
/// addresses, however their quantities are written, and whatever others wrote into them. It holds within one
/// build of the agent only.
pub fn status_digest(status: &v1::PodStatus) -> u64 {
    // Values of this type are always valid JSON.
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        // Written by others: the scheduler, and the API server at a resize.
        fields.remove("nominatedNodeName");
        fields.remove("resourceClaimStatuses");
        fields.remove("extendedResourceClaimStatus");
        // Servers of before 1.33 had the state of a resize here, and the API server writes it.
        fields.remove("resize");
    }
    if let Some(Value::Array(conditions)) = value.get_mut("conditions") {
        conditions.retain(is_own);
        conditions.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
    }
    let mut hasher = DefaultHasher::new();
    feed("", &value, &mut hasher);
    hasher.finish()
}

/// Several agents write `DisruptionTarget`: whose it is shows in its reason.
fn is_own(condition: &Value) -> bool {
    let kind = condition["type"].as_str().unwrap_or_default();
    is_own_condition(kind) && (kind != "DisruptionTarget" || condition["reason"] == "TerminationByKubelet")
}

/// Hashes what says something: a field that is null or empty is as good as none.
fn feed(field: &str, value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => {}
        Value::Bool(value) => (field, value).hash(hasher),
        Value::Number(value) => (field, value.to_string()).hash(hasher),
        Value::String(value) if value.is_empty() => {}
        Value::String(value) => (field, value).hash(hasher),
        Value::Array(values) if values.is_empty() => {}
        Value::Array(values) => {
            (field, values.len()).hash(hasher);
            values.iter().for_each(|value| feed("", value, hasher));
        }
        Value::Object(fields) if fields.values().all(says_nothing) => {}
        Value::Object(fields) => {
            (field, '{').hash(hasher);
            let is_quantities = ["requests", "limits", "allocatedResources"].contains(&field);
            for (name, value) in fields {
                match value.as_str().filter(|_| is_quantities).and_then(|text| Quantity::parse(text).ok()) {
                    Some(quantity) => (name, quantity.to_string()).hash(hasher),
                    None => feed(name, value, hasher),
                }
            }
            '}'.hash(hasher);
        }
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
