//! Parameters in the form of the recordings' `LinuxContainerResources`: without fields that are zero.

use serde_json::{Map, Value, json};

use super::super::ContainerParameters;

pub(super) fn json(given: &ContainerParameters) -> Value {
    let mut all = Map::new();
    let numbers = [
        ("cpu_period", given.cpu_period),
        ("cpu_quota", given.cpu_quota),
        ("cpu_shares", Some(given.cpu_shares)),
        ("memory_limit_in_bytes", given.memory_limit_in_bytes),
        ("memory_swap_limit_in_bytes", given.memory_swap_limit_in_bytes),
    ];
    for (name, value) in numbers {
        if let Some(n) = value.filter(|n| *n != 0) {
            all.insert(name.to_owned(), json!(n));
        }
    }
    if let Some(adjust) = given.oom_score_adj.filter(|n| *n != 0) {
        all.insert("oom_score_adj".to_owned(), json!(adjust));
    }
    if !given.hugepage_limits.is_empty() {
        let limit = |(size, bytes): (_, &u64)| match bytes {
            0 => json!({ "page_size": format!("{size}") }),
            n => json!({ "page_size": format!("{size}"), "limit": n }),
        };
        let limits: Vec<_> = given.hugepage_limits.iter().map(limit).collect();
        all.insert("hugepage_limits".to_owned(), json!(limits));
    }
    if !given.unified.is_empty() {
        all.insert("unified".to_owned(), json!(given.unified));
    }
    Value::Object(all)
}
