//! Messages are those of the kubelet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{ContainerUse, DiskUse, Observed};
use nodewarden_config::{EvictionTexts, parse_thresholds};
use nodewarden_manifest::Pod;

const MI: u64 = 1 << 20;

fn due(signal: &str, value: &str, available: u64, capacity: u64) -> Due {
    let hard = BTreeMap::from([(signal.to_owned(), value.to_owned())]);
    let texts = EvictionTexts { hard, ..EvictionTexts::default() };
    let threshold = parse_thresholds(&texts, false).unwrap().remove(0);
    let limit = crate::assess::limit(&threshold.value, capacity);
    let observed = Observed { available, capacity };
    Due { threshold, observed, limit, reclaim: 0, passed_since: Timestamp::UNIX_EPOCH }
}

fn candidate(spec: Value, containers: &[(&str, ContainerUse)]) -> Candidate {
    let pod = json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec});
    Candidate {
        pod: Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap()),
        cgroup: "/kubepods/podu".to_owned(),
        started: Timestamp::UNIX_EPOCH,
        memory: Some(700 * MI),
        disk: None,
        processes: Some(900),
        containers: containers.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect(),
        memory_request: None,
    }
}

fn container(name: &str, requests: &Value) -> Value {
    json!({"name": name, "image": "i", "resources": {"requests": requests}})
}

fn memory(mib: u64) -> ContainerUse {
    ContainerUse { memory: Some(mib * MI), ..ContainerUse::default() }
}

/// evictionMessage with the containers that use more than they requested, sidecars and init containers among
/// them.
#[test]
fn message_for_memory_lists_containers_above_their_request() {
    let spec = json!({
        "containers": [
            container("small", &json!({"memory": "100Mi"})),
            container("exact", &json!({"memory": "300Mi"})),
            container("large", &json!({"memory": "0.1Gi"})),
            container("none", &json!({"cpu": "1"})),
            container("unread", &json!({})),
        ],
        "initContainers": [container("init", &json!({"memory": "1M"}))],
    });
    let used = [("small", 99), ("exact", 300), ("large", 300), ("none", 1), ("init", 2), ("stranger", 9000)];
    let used = used.map(|(name, mib)| (name, memory(mib)));
    let candidate = candidate(spec, &used);
    let large = Quantity::parse("0.1Gi").unwrap();
    assert_eq!(
        message(&due("memory.available", "100Mi", 50 * MI, 16 << 30), &candidate),
        format!(
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
             Container large was using 300Mi, request is {large}, has larger consumption of memory. \
             Container none was using 1Mi, request is 0, has larger consumption of memory. \
             Container init was using 2Mi, request is 1M, has larger consumption of memory. "
        )
    );
    let percent = message(&due("allocatableMemory.available", "50%", 3_000_001, 100 * MI), &candidate);
    let expected = "The node was low on resource: memory. Threshold quantity: 50Mi, available: 3000001. ";
    assert!(percent.starts_with(expected), "{percent}");
}

#[test]
fn message_for_pod_level_requests_lists_the_pod_first() {
    let spec = json!({
        "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "containers": [container("c", &json!({"memory": "200Mi"}))],
    });
    assert_eq!(
        message(&due("memory.available", "100Mi", 0, 16 << 30), &candidate(spec, &[("c", memory(201))])),
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. \
         Pod web was using 700Mi, request is 1Gi, has larger consumption of memory. \
         Container c was using 201Mi, request is 200Mi, has larger consumption of memory. "
    );
}

#[test]
fn message_for_storage_inodes_and_pids() {
    let disk = |bytes| Some(DiskUse { bytes, inodes: 5, ..DiskUse::default() });
    let spec = json!({"containers": [
        container("c", &json!({"ephemeral-storage": "1Mi", "memory": "1"})),
        container("half", &json!({})),
    ]});
    let used = [
        ("c", ContainerUse { memory: Some(5), root: disk(MI), logs: disk(1024) }),
        ("half", ContainerUse { memory: Some(5), root: disk(MI), logs: None }),
    ];
    let candidate = candidate(spec, &used);
    for signal in ["nodefs.available", "imagefs.available", "containerfs.available"] {
        assert_eq!(
            message(&due(signal, "10%", 5 * 1024, 100 * 1024), &candidate),
            "The node was low on resource: ephemeral-storage. Threshold quantity: 10Ki, available: 5Ki. \
             Container c was using 1025Ki, request is 1Mi, has larger consumption of ephemeral-storage. ",
            "{signal}"
        );
    }
    // Inodes and processes cannot be requested.
    for (signal, resource) in
        [("nodefs.inodesFree", "inodes"), ("imagefs.inodesFree", "inodes"), ("pid.available", "pids")]
    {
        assert_eq!(
            message(&due(signal, "1k", 1000, 32768), &candidate),
            format!("The node was low on resource: {resource}. Threshold quantity: 1k, available: 1k. ")
        );
    }
}
