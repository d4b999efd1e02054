//! What the recordings of the kubelet's resource managers have in common, as values of this project
//! (the notation is that of their README).

mod machine;
mod node;

use std::collections::BTreeMap;

use nodewarden_manifest::Pod;
use serde_json::{Value, json};

pub use machine::{Shape, guaranteed};
pub use node::{Node, Shown};

use crate::{Cpu, CpuTopology, Distances, Hint, Hints, NodeSet, NumaNode};

/// A recording of the resource managers; `None`, with the test reported as skipped, where there is none.
pub fn load(file: &str) -> Option<Value> {
    nodewarden_testing::golden::load(&format!("resource_managers/{file}"))
}

/// The elements of a list; none if it is missing.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text.
///
/// # Panics
/// When it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// A number.
///
/// # Panics
/// When it is none.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Texts by key; none if it is missing.
pub fn texts(value: &Value) -> BTreeMap<String, String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value).to_owned()))
        .collect()
}

/// A hint: `0-1*`, `any`, `empty`.
pub fn hint(recorded: &str) -> Hint {
    let (nodes, preferred) = recorded.strip_suffix('*').map_or((recorded, false), |nodes| (nodes, true));
    let affinity = match nodes {
        "any" => None,
        "empty" => Some(NodeSet::EMPTY),
        nodes => Some(NodeSet::parse(nodes).expect("a list of NUMA nodes")),
    };
    Hint { affinity, preferred }
}

/// The hints of a provider.
pub fn hints(recorded: &Value) -> Hints {
    let one = |value: &Value| value.as_array().map(|hints| hints.iter().map(|one| hint(text(one))).collect());
    recorded.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), one(value))).collect()
}

/// The distances of recorded NUMA nodes (`numa`, `distances`).
pub fn distances(recorded: &Value) -> Distances {
    let node = |node: &Value| NumaNode {
        id: number(&node["numa"]) as u32,
        memory_bytes: 0,
        huge_pages: Vec::new(),
        distances: list(&node["distances"]).iter().map(number).collect(),
    };
    Distances::of(&list(recorded).iter().map(node).collect::<Vec<_>>())
}

/// The distances between nodes that are all as far from each other.
pub fn equally_far(nodes: NodeSet) -> Distances {
    let node = |id| NumaNode { id, memory_bytes: 0, huge_pages: Vec::new(), distances: Vec::new() };
    Distances::of(&nodes.iter().map(node).collect::<Vec<_>>())
}

/// A recorded topology: rows of cpu, core, socket, numa, uncore.
pub fn topology(recorded: &Value) -> CpuTopology {
    CpuTopology::new(list(&recorded["cpus"]).iter().map(|row| {
        let column = |at: usize| number(&row[at]) as u32;
        Cpu { cpu: column(0), core: column(1), socket: column(2), node: column(3), cache: column(4) }
    }))
}

/// A recorded pod.
///
/// # Panics
/// When its quantities cannot be read.
pub fn pod(recorded: &Value) -> Pod {
    let container = |container: &Value| {
        let mut made = json!({
            "name": container["name"],
            "image": "i",
            "resources": {"requests": texts(&container["requests"]), "limits": texts(&container["limits"])},
        });
        if container["sidecar"] == true {
            made["restartPolicy"] = json!("Always");
        }
        made
    };
    let containers = |key: &str| list(&recorded[key]).iter().map(container).collect::<Vec<_>>();
    let mut spec =
        json!({"initContainers": containers("init_containers"), "containers": containers("containers")});
    if !recorded["pod_requests"].is_null() || !recorded["pod_limits"].is_null() {
        spec["resources"] =
            json!({"requests": texts(&recorded["pod_requests"]), "limits": texts(&recorded["pod_limits"])});
    }
    let manifest = json!({"metadata": {"name": recorded["uid"], "uid": recorded["uid"]}, "spec": spec});
    Pod::unchecked(serde_json::from_value(manifest).expect("a pod's fields")).expect("quantities")
}
