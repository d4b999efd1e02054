//! A row for each managed pod, made from the message that gRPC sends of it. Pure.
//!
//! Only what is named here is shown: no variables, no annotations, and nothing that a probe's program has
//! written.

use nodewarden_proto::nodewarden::v1 as proto;
use proto::container::State;
use serde_json::{Value, json};

use super::frame::Row;
use super::rows::{proto_millis, text};
use nodewarden_manifest::Quantity;

/// The rows of pods, by uid.
pub(super) fn rows(list: &proto::ListPodsResponse) -> Vec<(String, Row)> {
    list.pods.iter().map(|own| (own.uid.clone(), Row::new(text(&pod(own))))).collect()
}

fn pod(own: &proto::Pod) -> Value {
    json!({
        "uid": own.uid,
        "namespace": own.namespace,
        "name": own.name,
        "qos": own.qos,
        "priority": own.priority,
        "phase": own.phase,
        "reason": own.reason,
        "message": own.message,
        "origin": own.origin,
        "started": own.started.as_ref().and_then(proto_millis),
        "terminating": own.terminating.as_ref().and_then(proto_millis),
        "ips": own.ips,
        "hostNetwork": own.host_network,
        "resize": own.resize,
        "containers": own.containers.iter().map(container).collect::<Vec<_>>(),
    })
}

fn container(own: &proto::Container) -> Value {
    let state = match &own.state {
        Some(State::Waiting(waiting)) => {
            json!({"is": "waiting", "reason": waiting.reason, "message": waiting.message})
        }
        Some(State::RunningSince(since)) => json!({"is": "running", "since": proto_millis(since)}),
        Some(State::Terminated(end)) => ended(end),
        None => json!({"is": "unknown"}),
    };
    let amount = |list: &std::collections::HashMap<String, String>, name| list.get(name).cloned();
    let bytes =
        |text: Option<&String>| text.and_then(|text| text.parse::<Quantity>().ok()).map(|own| own.value());
    let cores = |text: Option<&String>| {
        text.and_then(|text| text.parse::<Quantity>().ok()).map(|own| own.milli_value() as f64 / 1000.0)
    };
    json!({
        "name": own.name,
        "kind": own.kind,
        "image": own.image,
        "id": own.id,
        "state": state,
        "last": own.last.as_ref().map(ended),
        "restarts": own.restarts,
        "ready": own.ready,
        "oom": own.oom.as_ref().map(victim),
        "cpuRequest": cores(own.requests.get("cpu")),
        "cpuLimit": cores(own.limits.get("cpu")),
        "memoryRequest": bytes(own.requests.get("memory")),
        "memoryLimit": bytes(own.limits.get("memory")),
        "requests": [amount(&own.requests, "cpu"), amount(&own.requests, "memory")],
        "limits": [amount(&own.limits, "cpu"), amount(&own.limits, "memory")],
        "probes": own.probes.iter().map(probe).collect::<Vec<_>>(),
    })
}

fn ended(own: &proto::Ended) -> Value {
    json!({
        "is": "terminated",
        "exitCode": own.exit_code,
        "signal": own.signal,
        "reason": own.reason,
        "finished": own.finished.as_ref().and_then(proto_millis),
        "oom": own.oom.as_ref().map(victim),
    })
}

fn victim(own: &proto::OomVictim) -> Value {
    json!({"time": own.time.as_ref().and_then(proto_millis), "pid": own.pid, "command": own.command})
}

fn probe(own: &proto::Probe) -> Value {
    let last = own.last.as_ref().map(|run| {
        json!({
            "begun": run.begun.as_ref().and_then(proto_millis),
            "tookMs": run.took_ns as f64 / 1e6,
            "outcome": run.outcome,
        })
    });
    json!({
        "type": own.r#type,
        "handler": own.handler,
        "result": own.result,
        "inARow": own.in_a_row,
        "successThreshold": own.success_threshold,
        "failureThreshold": own.failure_threshold,
        "waitsFor": own.waits_for,
        "successful": own.successful,
        "failed": own.failed,
        "last": last,
    })
}
