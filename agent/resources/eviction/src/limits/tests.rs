//! Limits of the kubelet's own tests (`TestLocalStorageEviction` and those of each limit), and that a pod
//! within all of its limits is not evicted.

use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{DiskUse, PodDisk};

const MI: u64 = 1 << 20;

fn pod(spec: &Value) -> Pod {
    let pod = json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec});
    Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap()
}

fn container(name: &str, limit: Option<&str>) -> Value {
    let limits = limit.map_or(json!({}), |limit| json!({"ephemeral-storage": limit}));
    json!({"name": name, "image": "i", "resources": {"limits": limits}})
}

fn of(bytes: u64) -> DiskUse {
    DiskUse { bytes, inodes: 1, ..DiskUse::default() }
}

/// Root, logs and volumes in bytes; each container's root and logs.
fn candidate(spec: &Value, disk: Option<[u64; 3]>, containers: &[(&str, u64, u64)]) -> Candidate {
    let used = |(name, root, logs): &(&str, u64, u64)| {
        let used = ContainerUse { memory: None, root: Some(of(*root)), logs: Some(of(*logs)) };
        ((*name).to_owned(), used)
    };
    Candidate {
        pod: Arc::new(pod(spec)),
        cgroup: "/kubepods/podu".to_owned(),
        started: Timestamp::UNIX_EPOCH,
        memory: None,
        disk: disk.map(|[root, logs, volumes]| PodDisk {
            root: of(root),
            logs: of(logs),
            volumes: of(volumes),
        }),
        processes: None,
        containers: containers.iter().map(used).collect(),
        memory_request: None,
    }
}

/// Signal, bytes used and allowed, and the message.
fn beyond(candidate: &Candidate, volumes: &[(&str, u64)]) -> Option<(&'static str, u64, u64, String)> {
    let volumes = volumes.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect();
    let limits = Limits::of(&candidate.pod)?;
    exceeded(&limits, candidate, &volumes).map(|own| (own.signal, own.used, own.limit, own.message))
}

#[test]
fn limits_of_a_pod() {
    let volume = |own: Value| json!({"containers": [container("c", None)], "volumes": [{"name": "v", "emptyDir": own}]});
    for none in [
        json!({"containers": [container("c", None)]}),
        volume(json!({})),
        volume(json!({"sizeLimit": "0"})),
        volume(json!({"sizeLimit": "1Mi", "medium": "Memory"})),
        volume(json!({"sizeLimit": "1Mi", "medium": "HugePages"})),
        json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"memory": "1Mi"}}}],
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    ] {
        assert_eq!(Limits::of(&pod(&none)), None, "{none}");
    }
    let mib = |n: i64| Quantity::from_bytes(n << 20);
    let one = Limits::of(&pod(&volume(json!({"sizeLimit": "3Mi"})))).unwrap();
    assert_eq!((one.volumes.as_slice(), one.of_storage()), (&[("v".to_owned(), mib(3))][..], false));
    let init = json!({"name": "s", "image": "i", "restartPolicy": "Always",
        "resources": {"limits": {"ephemeral-storage": "5Mi"}}});
    let spec =
        json!({"containers": [container("a", Some("1Mi")), container("b", None)], "initContainers": [init]});
    let many = Limits::of(&pod(&spec)).unwrap();
    assert_eq!(many.containers, [("a".to_owned(), mib(1))]);
    assert_eq!(many.pod, Some(mib(6)));
}

/// What an init container left behind counts for the pod, not against the init container's own limit, as in
/// the kubelet: otherwise the logs of one that has finished end a pod that runs.
#[test]
fn init_containers_have_no_limit_of_their_own() {
    for policy in [json!({}), json!({"restartPolicy": "Always"})] {
        let mut init = container("i", Some("1Mi"));
        init.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
        let spec = json!({"containers": [container("a", Some("100Mi"))], "initContainers": [init]});
        let over = [("i", 9 * MI, 9 * MI), ("a", MI, MI)];
        assert_eq!(beyond(&candidate(&spec, Some([10 * MI, 10 * MI, 0]), &over), &[]), None);
        let pod = beyond(&candidate(&spec, Some([10 * MI, 92 * MI, 0]), &over), &[]);
        assert_eq!(pod.map(|own| own.0), Some("ephemeralpodfs.limit"), "the pod's limit counts everything");
    }
}

#[test]
fn volumes_are_checked_first_then_the_pod_then_containers() {
    let spec = json!({
        "containers": [container("a", Some("10Mi")), container("b", Some("0.1Gi"))],
        "volumes": [
            {"name": "small", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "free", "emptyDir": {}},
            {"name": "gone", "emptyDir": {"sizeLimit": "1"}},
        ],
    });
    let containers = [("a", 11 * MI, 0), ("b", MI, 2 * MI)];
    let full = candidate(&spec, Some([100 * MI, 10 * MI, 10 * MI]), &containers);
    let volumes = |small| [("small", small), ("free", 999 * MI)];
    let expected = (
        "emptydirfs.limit",
        MI + 1,
        MI,
        "Usage of EmptyDir volume \"small\" exceeds the limit \"1Mi\". ".to_owned(),
    );
    assert_eq!(beyond(&full, &volumes(MI + 1)), Some(expected));
    let total = 10 * MI + 107_374_182 + 1;
    let (signal, used, limit, message) = beyond(&full, &volumes(MI)).unwrap();
    assert_eq!((signal, used, limit), ("ephemeralpodfs.limit", 120 * MI, total));
    let total = Quantity::parse("10Mi").unwrap() + Quantity::parse("0.1Gi").unwrap();
    assert_eq!(
        message,
        format!("Pod ephemeral local storage usage exceeds the total limit of containers {total}. ")
    );
    let room = candidate(&spec, Some([12 * MI, 2 * MI, 10 * MI]), &containers);
    let expected = (
        "ephemeralcontainerfs.limit",
        11 * MI,
        10 * MI,
        "Container a exceeded its local ephemeral storage limit \"10Mi\". ".to_owned(),
    );
    assert_eq!(beyond(&room, &volumes(0)), Some(expected));
    let logs = candidate(&spec, Some([9 * MI, 2 * MI, 0]), &[("a", 9 * MI, 2 * MI)]);
    assert_eq!(beyond(&logs, &[]).map(|own| own.0), Some("ephemeralcontainerfs.limit"), "logs count");
    let exactly = candidate(&spec, Some([0, 0, 10 * MI]), &[("a", 10 * MI, 0), ("stranger", 999 * MI, 0)]);
    assert_eq!(beyond(&exactly, &volumes(MI)), None);
}

#[test]
fn a_figure_that_was_not_read_exceeds_no_limit() {
    let spec = json!({"containers": [container("a", Some("0"))], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1"}}]});
    let unread = candidate(&spec, None, &[]);
    assert_eq!(beyond(&unread, &[]), None);
    // As in the kubelet: a limit of zero is exceeded by any use.
    let read = candidate(&spec, Some([1, 0, 0]), &[("a", 1, 0)]);
    assert_eq!(beyond(&read, &[]).map(|own| own.0), Some("ephemeralpodfs.limit"));
}

proptest! {
    /// A pod within every limit is not evicted, and an evicted pod exceeds the limit that is named.
    #[test]
    fn only_pods_beyond_a_limit_are_evicted(limits in prop::array::uniform3(1u64..1000), used in prop::array::uniform3(0u64..1000), logs in 0u64..100) {
        let [volume, first, second] = limits.map(|bytes| bytes.to_string());
        let spec = json!({
            "containers": [container("a", Some(&first)), container("b", Some(&second))],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": volume}}],
        });
        let disk = [used[1] + used[2], logs, used[0]];
        let one = candidate(&spec, Some(disk), &[("a", used[1], logs), ("b", used[2], 0)]);
        let found = beyond(&one, &[("v", used[0])]);
        let within = [
            used[0] <= limits[0],
            disk.iter().sum::<u64>() <= limits[1] + limits[2],
            used[1] + logs <= limits[1] && used[2] <= limits[2],
        ];
        prop_assert_eq!(found.is_none(), within.iter().all(|is| *is));
        if let Some((signal, used, limit, _)) = found {
            prop_assert!(used > limit);
            let first = within.iter().position(|is| !is).unwrap();
            prop_assert_eq!(signal, ["emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit"][first]);
        }
    }
}
