//! The object of an event, and the patch that counts it up.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::correlate::Entry;
use crate::pod_object::second;

/// Who reports events in place of a kubelet: what clients look for when they want a node agent's.
pub const KUBELET: &str = "kubelet";

/// The namespace that the event is in: those of nodes are in `default`.
pub fn namespace(entry: &Entry) -> &str {
    match entry.last.involved.namespace.as_str() {
        "" => "default",
        own => own,
    }
}

/// The event as this component of the node reports it.
pub fn object(entry: &Entry, component: &str, node: &str) -> v1::Event {
    let last = &entry.last;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    v1::Event {
        metadata: ObjectMeta {
            name: Some(entry.name.clone()),
            namespace: Some(namespace(entry).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: v1::ObjectReference {
            api_version: (last.involved.kind == "Pod").then(|| "v1".to_owned()),
            kind: text(last.involved.kind),
            namespace: text(&last.involved.namespace),
            name: text(&last.involved.name),
            uid: text(&last.involved.uid),
            field_path: text(&last.involved.field_path),
            resource_version: None,
        },
        reason: text(&last.reason),
        message: text(&last.message),
        type_: text(last.kind.name()),
        source: Some(v1::EventSource { component: text(component), host: text(node) }),
        reporting_component: text(component),
        reporting_instance: text(node),
        first_timestamp: Some(Time(second(entry.first))),
        last_timestamp: Some(Time(second(last.time))),
        count: Some(entry.count),
        ..v1::Event::default()
    }
}

/// What changes of an event that is there.
pub fn patch(entry: &Entry) -> Value {
    json!({
        "count": entry.count,
        "lastTimestamp": Time(second(entry.last.time)),
        "message": entry.last.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Involved, Kind, Occurrence};

    #[test]
    fn an_event_has_the_fields_of_a_kubelets() {
        let involved = Involved {
            kind: "Pod",
            namespace: "shop".into(),
            name: "cart".into(),
            uid: "8c5e".into(),
            field_path: "spec.containers{web}".into(),
        };
        let last = Occurrence {
            involved,
            kind: Kind::Warning,
            reason: "BackOff".into(),
            message: "Back-off".into(),
            time: "2026-11-23T08:00:10.7Z".parse().unwrap(),
        };
        let first = "2026-11-23T08:00:00Z".parse().unwrap();
        let mut entry = Entry { name: "cart.1".into(), last, first, count: 2, key: 0 };
        assert_eq!(
            serde_json::to_value(object(&entry, KUBELET, "node-1")).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": "cart.1", "namespace": "shop"},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "cart", "uid": "8c5e",
                    "fieldPath": "spec.containers{web}"},
                "type": "Warning", "reason": "BackOff", "message": "Back-off", "count": 2,
                "firstTimestamp": "2026-11-23T08:00:00Z", "lastTimestamp": "2026-11-23T08:00:10Z",
                "source": {"component": "kubelet", "host": "node-1"},
                "reportingComponent": "kubelet", "reportingInstance": "node-1",
            })
        );
        assert_eq!(
            patch(&entry),
            json!({"count": 2, "lastTimestamp": "2026-11-23T08:00:10Z", "message": "Back-off"})
        );
        entry.last.involved = Involved::node("node-1");
        let node = serde_json::to_value(object(&entry, KUBELET, "node-1")).unwrap();
        assert_eq!(node["metadata"]["namespace"], "default");
        assert_eq!(node["involvedObject"], json!({"kind": "Node", "name": "node-1", "uid": "node-1"}));
    }
}
