//! Pods as a table, and as a Kubernetes `PodList`. Pure.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{ListPodsResponse, Pod};
use serde_json::{Value, json};

use super::{reason, used};
use crate::cli::format::{printable, span};
use crate::cli::table::{Align, table};
use nodewarden_api::grpc::time;

const HEAD: [&str; 10] =
    ["NAMESPACE", "NAME", "QOS", "READY", "STATE", "RESTARTS", "REASON", "AGE", "CPU", "MEMORY"];
const WIDE: [&str; 3] = ["IP", "UID", "MANIFEST"];
const ALIGNS: [Align; 13] = {
    use Align::{Left, Right};
    [Left, Left, Left, Right, Left, Right, Left, Right, Right, Right, Left, Left, Left]
};

/// The table of pods, or one line that says why there are none.
pub fn text(before: &ListPodsResponse, now: &ListPodsResponse, wide: bool, time: Timestamp) -> String {
    if now.pods.is_empty() {
        return match now.mode.as_str() {
            "manage" => "No pods: no source, such as the manifest directory, has any.\n".into(),
            _ => "No pods: in mode observe the agent runs no pods. See `nodewarden tree --pods`.\n".into(),
        };
    }
    let head = HEAD.iter().chain(WIDE.iter().filter(|_| wide)).map(|h| (*h).to_owned()).collect();
    let old = by_uid(before);
    let rows = now.pods.iter().map(|pod| row(old.get(pod.uid.as_str()).copied(), pod, wide, time));
    lines(std::iter::once(head).chain(rows).collect())
}

/// The rows of new pods, of pods that changed in more than age and usage, and of removed pods (state `Gone`).
pub fn changed(before: &ListPodsResponse, now: &ListPodsResponse, wide: bool, time: Timestamp) -> String {
    let (old, new) = (by_uid(before), by_uid(now));
    let compared = |pod: &Pod| {
        (reason::state(pod).to_owned(), reason::reason(pod), reason::ready(pod), reason::restarts(pod))
    };
    let mut rows = Vec::new();
    for pod in &now.pods {
        let was = old.get(pod.uid.as_str()).copied();
        if was.is_none_or(|was| compared(was) != compared(pod)) {
            rows.push(row(was, pod, wide, time));
        }
    }
    for pod in before.pods.iter().filter(|pod| !new.contains_key(pod.uid.as_str())) {
        let mut removed = row(None, pod, wide, time);
        removed[4] = "Gone".into();
        rows.push(removed);
    }
    lines(rows)
}

fn lines(rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    table(&rows, &ALIGNS[..columns])
}

fn by_uid(answer: &ListPodsResponse) -> HashMap<&str, &Pod> {
    answer.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect()
}

fn row(before: Option<&Pod>, pod: &Pod, wide: bool, now: Timestamp) -> Vec<String> {
    let (ready, all) = reason::ready(pod);
    let uses = (before.and_then(|b| b.r#use.as_ref()), pod.r#use.as_ref());
    let mut row = vec![
        pod.namespace.clone(),
        pod.name.clone(),
        pod.qos.clone(),
        format!("{ready}/{all}"),
        reason::state(pod).to_owned(),
        reason::restarts(pod).to_string(),
        dashed(&reason::reason(pod)),
        age(pod.started.as_ref(), now),
        used::cpu(uses.0, uses.1),
        used::memory(uses.1),
    ];
    if wide {
        row.extend([dashed(&pod.ips.join(",")), pod.uid.clone(), dashed(&pod.origin)]);
    }
    row.iter().map(|cell| printable(cell)).collect()
}

fn dashed(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Time since then; a dash if it is unknown.
pub fn age(since: Option<&prost_types::Timestamp>, now: Timestamp) -> String {
    let since = since.and_then(time::to_timestamp);
    since.map_or_else(
        || dashed(""),
        |since| span(Duration::try_from(now.duration_since(since)).unwrap_or_default()),
    )
}

/// A v1 PodList in JSON.
pub fn json(answer: &ListPodsResponse) -> String {
    // Serializing fails only for maps with non-string keys, and JSON has none.
    serde_json::to_string_pretty(&kubernetes(answer)).unwrap_or_default() + "\n"
}

/// A v1 PodList in YAML.
pub fn yaml(answer: &ListPodsResponse) -> String {
    serde_yaml_ng::to_string(&kubernetes(answer)).unwrap_or_default()
}

fn kubernetes(answer: &ListPodsResponse) -> Value {
    let items: Vec<Value> =
        answer.pods.iter().filter_map(|pod| serde_json::from_str(&pod.kubernetes).ok()).collect();
    json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})
}
