//! The patch from one status of the node to another, as a strategic merge patch that has only what differs
//! (`PatchNodeStatus` of pkg/util/node).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The value of `status` in a patch from `known` to `desired`; `None` if nothing but heartbeats differs. With
/// `heartbeats` all conditions that the agent sets are in it, and there always is a patch.
pub fn status_patch(known: &NodeStatus, desired: &NodeStatus, heartbeats: bool) -> Option<Value> {
    let mut patch = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            patch.insert(key.to_owned(), value);
        }
    };
    put("capacity", map_patch(&known.capacity, &desired.capacity));
    put("allocatable", map_patch(&known.allocatable, &desired.allocatable));
    put("nodeInfo", object_patch(&known.node_info, &desired.node_info));
    put("daemonEndpoints", replaced(&known.daemon_endpoints, &desired.daemon_endpoints));
    put("images", replaced(&known.images, &desired.images));
    // Merged by type, of which a node with two addresses has several: the list is replaced.
    let addresses = replaced(&known.addresses, &desired.addresses).and_then(|list| match list {
        Value::Array(mut list) => {
            list.push(json!({ "$patch": "replace" }));
            Some(Value::Array(list))
        }
        _ => None,
    });
    put("addresses", addresses);
    put("conditions", conditions_patch(known, desired, heartbeats));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The conditions that differ, whole: they are merged by type. If any has to be written, all of the agent's
/// are, with the same heartbeat.
fn conditions_patch(known: &NodeStatus, desired: &NodeStatus, heartbeats: bool) -> Option<Value> {
    let before: BTreeMap<&str, &NodeCondition> =
        known.conditions.iter().flatten().map(|condition| (condition.type_.as_str(), condition)).collect();
    let conditions: Vec<&NodeCondition> = desired.conditions.iter().flatten().collect();
    let same = |now: &NodeCondition| {
        before.get(now.type_.as_str()).is_some_and(|before| {
            let heart = now.last_heartbeat_time.clone();
            NodeCondition { last_heartbeat_time: heart, ..(*before).clone() } == *now
        })
    };
    let foreign = |now: &NodeCondition| before.get(now.type_.as_str()).is_some_and(|before| *before == now);
    if !heartbeats && conditions.iter().all(|condition| same(condition)) {
        return None;
    }
    let written = conditions.into_iter().filter(|condition| heartbeats || !foreign(condition));
    serde_json::to_value(written.collect::<Vec<_>>()).ok()
}

/// Keys that differ; those that are gone are null.
fn map_patch<V: Serialize + PartialEq>(
    known: &Option<BTreeMap<String, V>>,
    desired: &Option<BTreeMap<String, V>>,
) -> Option<Value> {
    let empty = BTreeMap::new();
    let (known, desired) = (known.as_ref().unwrap_or(&empty), desired.as_ref().unwrap_or(&empty));
    let mut patch = Map::new();
    for (key, value) in desired.iter().filter(|(key, value)| known.get(*key) != Some(value)) {
        patch.insert(key.clone(), serde_json::to_value(value).ok()?);
    }
    for key in known.keys().filter(|key| !desired.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The fields of an object that differ.
fn object_patch<T: Serialize>(known: &Option<T>, desired: &Option<T>) -> Option<Value> {
    let fields = |value: &Option<T>| match value.as_ref().map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields.into_iter().collect::<BTreeMap<_, _>>(),
        _ => BTreeMap::new(),
    };
    map_patch(&Some(fields(known)), &Some(fields(desired)))
}

/// The whole value if it differs.
fn replaced<T: Serialize + PartialEq>(known: &Option<T>, desired: &Option<T>) -> Option<Value> {
    if known == desired {
        return None;
    }
    serde_json::to_value(desired.as_ref()?).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::facts::{Pressures, Readings};
    use super::super::fixture::{facts, readings};
    use super::super::status::desired;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn keys(patch: &Option<Value>) -> Vec<&str> {
        patch.iter().filter_map(Value::as_object).flat_map(|map| map.keys()).map(String::as_str).collect()
    }

    #[test]
    fn only_what_differs_is_in_the_patch() {
        let known = desired(&facts(), &readings(), &NodeStatus::default(), at(1));
        let patch =
            |readings: &Readings| status_patch(&known, &desired(&facts(), readings, &known, at(9)), false);
        assert_eq!(patch(&readings()), None);
        let pressed =
            Readings { pressure: Pressures { disk: Some(at(8)), ..Pressures::default() }, ..readings() };
        let found = patch(&pressed);
        assert_eq!(keys(&found), ["conditions"]);
        let conditions = found.as_ref().unwrap()["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 4);
        assert!(conditions.iter().all(|own| own["lastHeartbeatTime"] == "1970-01-01T00:00:09Z"));
        assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:00:08Z");
        let mut fewer = readings();
        fewer.resources.retain(|resource| resource.name != "hugepages-2Mi");
        assert_eq!(
            patch(&fewer),
            Some(json!({"capacity": {"hugepages-2Mi": null}, "allocatable": {"hugepages-2Mi": null}}))
        );
        let mut moved = readings();
        moved.ips = vec!["10.0.0.2".parse().unwrap()];
        assert_eq!(
            patch(&moved),
            Some(json!({"addresses": [
                {"type": "InternalIP", "address": "10.0.0.2"},
                {"type": "Hostname", "address": "node-1"},
                {"$patch": "replace"},
            ]}))
        );
    }

    #[test]
    fn a_heartbeat_is_only_the_conditions() {
        let known = desired(&facts(), &readings(), &NodeStatus::default(), at(1));
        let again = desired(&facts(), &readings(), &known, at(9));
        let patch = status_patch(&known, &again, true);
        assert_eq!(keys(&patch), ["conditions"]);
        assert_eq!(patch.unwrap()["conditions"][3]["lastTransitionTime"], "1970-01-01T00:00:01Z");
    }

    #[test]
    fn a_new_node_gets_everything() {
        let new = desired(&facts(), &readings(), &NodeStatus::default(), at(1));
        let patch = status_patch(&NodeStatus::default(), &new, false);
        assert_eq!(
            keys(&patch),
            ["addresses", "allocatable", "capacity", "conditions", "daemonEndpoints", "images", "nodeInfo"]
        );
    }
}
