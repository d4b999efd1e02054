//! The patch by which a status is written: a strategic merge patch, which leaves the conditions of others as
//! they are.

use std::net::IpAddr;

use k8s_openapi::api::core::v1;
use serde_json::{Value, json};

use crate::known_pods::{KnownPod, is_own_condition};

/// The patch that makes the status of the pod `known` this one. It is refused if the pod there has another
/// uid.
pub fn patch(status: &v1::PodStatus, known: &KnownPod) -> Value {
    // Values of this type are always valid JSON.
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        for field in ["reason", "message"] {
            // A field that is not named stays as it is.
            fields.entry(field).or_insert(Value::Null);
        }
        if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
            for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
                for field in ["reason", "message"] {
                    condition.entry(field).or_insert(Value::Null);
                }
            }
            let gone = gone(status, known);
            conditions.extend(gone.map(|name| json!({"$patch": "delete", "type": name})));
        }
        replace_addresses(fields, "podIPs", &known.ips);
        replace_addresses(fields, "hostIPs", &known.host_ips);
    }
    json!({"metadata": {"uid": &*known.uid}, "status": value})
}

/// Conditions of the agent that the pod no longer has. Who disrupts a pod says so once.
fn gone<'a>(status: &'a v1::PodStatus, known: &'a KnownPod) -> impl Iterator<Item = &'a str> {
    let now = status.conditions.as_deref().unwrap_or_default();
    let all = known.conditions.iter().map(|condition| &*condition.name);
    all.filter(|name| is_own_condition(name) && *name != "DisruptionTarget")
        .filter(|name| !now.iter().any(|condition| condition.type_ == *name))
}

/// Lists of addresses are merged by address: those that the pod no longer has are deleted by name.
fn replace_addresses(fields: &mut serde_json::Map<String, Value>, field: &str, before: &[IpAddr]) {
    let Some(Value::Array(list)) = fields.get_mut(field) else { return };
    let now: Vec<String> = list.iter().filter_map(|own| own["ip"].as_str().map(str::to_owned)).collect();
    let old: Vec<String> = before.iter().map(ToString::to_string).collect();
    if old.is_empty() || old == now {
        return;
    }
    let order = Value::Array(list.clone());
    for ip in old.iter().filter(|ip| !now.contains(ip)) {
        list.push(json!({"$patch": "delete", "ip": ip}));
    }
    fields.insert(format!("$setElementOrder/{field}"), order);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(status: Value) -> KnownPod {
        let pod = json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "status": status});
        KnownPod::of(&serde_json::from_value::<v1::Pod>(pod).unwrap())
    }

    fn patched(status: Value, before: Value) -> Value {
        let patch = patch(&serde_json::from_value(status).unwrap(), &known(before));
        assert_eq!(patch["metadata"], json!({"uid": "u"}));
        patch["status"].clone()
    }

    #[test]
    fn what_a_status_no_longer_has_is_removed_and_what_others_wrote_stays() {
        let condition = |name: &str| json!({"type": name, "status": "True"});
        let before = json!({
            "conditions": [condition("Ready"), condition("PodResizePending"), condition("example.com/gate"),
                condition("DisruptionTarget")],
            "podIPs": [{"ip": "10.0.0.7"}],
        });
        let after =
            json!({"phase": "Running", "conditions": [condition("Ready")], "podIPs": [{"ip": "10.0.0.8"}]});
        assert_eq!(
            patched(after, before),
            json!({
                "phase": "Running", "reason": null, "message": null,
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": null, "message": null},
                    {"$patch": "delete", "type": "PodResizePending"},
                ],
                "podIPs": [{"ip": "10.0.0.8"}, {"$patch": "delete", "ip": "10.0.0.7"}],
                "$setElementOrder/podIPs": [{"ip": "10.0.0.8"}],
            })
        );
    }

    #[test]
    fn the_first_status_has_no_directives() {
        let after =
            json!({"reason": "Evicted", "podIPs": [{"ip": "10.0.0.8"}], "hostIPs": [{"ip": "10.0.0.1"}]});
        let expected = json!({"reason": "Evicted", "message": null, "podIPs": [{"ip": "10.0.0.8"}], "hostIPs": [{"ip": "10.0.0.1"}]});
        assert_eq!(patched(after.clone(), json!({})), expected);
        assert_eq!(patched(after, json!({"podIPs": [{"ip": "10.0.0.8"}]})), expected);
    }
}
