use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::fixture;

fn shown(snapshot: &Snapshot, before: &Readings) -> Value {
    serde_json::to_value(summary(snapshot, before, &fixture::summary_sources())).unwrap()
}

#[test]
fn node_pods_and_containers_are_shown() {
    let answer = shown(&fixture::snapshot(2), &Readings::default());
    let node = &answer["node"];
    assert_eq!(node["nodeName"], "anchor");
    assert_eq!(node["startTime"], "2023-11-14T19:26:40Z");
    assert_eq!(node["cpu"]["usageCoreNanoSeconds"], 4_288_423_535_628u64);
    assert_eq!(node["memory"]["availableBytes"], 24_000_000_000u64);
    assert_eq!(node["fs"]["inodesUsed"], 568_307);
    assert_eq!(
        node["swap"],
        json!({"time": "2023-11-14T22:21:40Z", "swapAvailableBytes": 995_904, "swapUsageBytes": 4096})
    );
    assert_eq!(node["network"]["name"], "eth0");
    let interfaces: Vec<_> =
        node["network"]["interfaces"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert_eq!(interfaces, ["ifb0", "eth0"]);
    let system: Vec<_> = node["systemContainers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(system, ["kubelet", "runtime", "pods"]);

    let pod = &answer["pods"][1];
    assert_eq!(pod["podRef"], json!({"name": "web-1", "namespace": "default", "uid": fixture::pod_uid(1)}));
    let containers = pod["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1, "no sandbox, nothing nested");
    assert_eq!(containers[0]["name"], "app");
    assert_eq!(containers[0]["memory"]["availableBytes"], 20_971_520 - 212_992);
    assert_eq!(
        containers[0]["cpu"]["psi"]["some"],
        json!({"total": 2_050_000_000u64, "avg10": 0.5, "avg60": 0.25, "avg300": 0.1})
    );
}

/// As on a host with Docker beside containerd, where names of units say nothing.
#[test]
fn system_containers_are_where_their_processes_are() {
    let mut snapshot = fixture::snapshot(1);
    let at = snapshot.groups.iter().position(|g| &*g.path == "/system.slice/containerd.service").unwrap();
    for path in ["/system.slice/docker.service", "/runtime", "/other", "/system.slice/kubelet.service/agent"]
    {
        let mut group = snapshot.groups[at].clone();
        group.path = Arc::from(path);
        snapshot.groups.push(group);
    }
    let path = |path: &str| Some(path.to_owned());
    let names = |system: &SystemCgroups| -> Vec<String> {
        let sources = Sources { system: system.clone(), ..Sources::default() };
        let answer = summary(&snapshot, &Readings::default(), &sources);
        answer.node.system_containers.into_iter().map(|own| own.name).collect()
    };
    let system = SystemCgroups {
        kubelet: path("/system.slice/kubelet.service/agent"),
        runtime: path("/runtime"),
        misc: path("/other"),
    };
    assert_eq!(names(&system), ["kubelet", "runtime", "misc", "pods"]);
    assert_eq!(names(&SystemCgroups::default()), ["pods"], "nothing is guessed");
    // The root is no cgroup of its own, and one that is gone has no figures.
    let system = SystemCgroups { kubelet: path("/"), runtime: path("/gone"), misc: None };
    assert_eq!(names(&system), ["pods"]);
}

#[test]
fn unknown_values_are_left_out() {
    let mut snapshot = fixture::snapshot(1);
    snapshot.machine = Machine { node_name: "n".into(), ..Machine::default() };
    snapshot.groups.retain(|g| matches!(*g.identity, Identity::Root | Identity::Pod { .. }));
    for group in &mut snapshot.groups {
        group.usage = Usage::default();
    }
    let answer = summary(&snapshot, &Readings::default(), &Sources::default());
    let answer = serde_json::to_value(answer).unwrap();
    assert_eq!(answer["node"], json!({"nodeName": "n"}));
    let keys: Vec<_> = answer["pods"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["containers", "podRef", "startTime"]);
}

#[test]
fn a_rate_needs_an_earlier_reading() {
    let before = fixture::snapshot(1);
    let mut now = before.clone();
    let second = Duration::from_secs(2);
    now.time += second;
    now.machine.usage.time = now.machine.usage.time.map(|t| t + second);
    now.machine.usage.cpu.as_mut().unwrap().usage_ns += 3_000_000_000;
    let at = now.groups.iter().position(|g| g.path.ends_with(&fixture::container_id(0))).unwrap();
    now.groups[at].usage.time = now.groups[at].usage.time.map(|t| t + second);
    now.groups[at].usage.cpu.as_mut().unwrap().usage_ns += 500_000_000;

    let first = shown(&before, &Readings::default());
    assert!(first["node"]["cpu"].get("usageNanoCores").is_none());
    let readings = Readings::of(&before);
    assert!(!readings.stale(&before) && readings.stale(&now));
    let second = shown(&now, &readings);
    assert_eq!(second["node"]["cpu"]["usageNanoCores"], 1_500_000_000);
    assert_eq!(second["pods"][0]["containers"][0]["cpu"]["usageNanoCores"], 250_000_000);
}

#[test]
fn removed_and_replaced_containers_are_not_shown() {
    let mut snapshot = fixture::snapshot(1);
    let at = snapshot.groups.iter().position(|g| g.path.ends_with(&fixture::container_id(0))).unwrap();
    let mut old = snapshot.groups[at].clone();
    old.path = Arc::from("/kubepods/burstable/old");
    old.created -= Duration::from_secs(60);
    snapshot.groups.push(old.clone());
    let mut gone = old;
    gone.path = Arc::from("/kubepods/burstable/gone");
    gone.removed = Some(snapshot.time);
    snapshot.groups.push(gone);
    let answer = shown(&snapshot, &Readings::default());
    let containers = answer["pods"][0]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["startTime"], "2023-11-14T22:15:00Z");
}

#[test]
fn only_cpu_memory_and_swap_are_shown_on_request() {
    let answer = summary(&fixture::snapshot(1), &Readings::default(), &fixture::summary_sources())
        .only_cpu_and_memory();
    let answer = serde_json::to_value(answer).unwrap();
    let keys: Vec<_> = answer["node"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["cpu", "memory", "nodeName", "startTime", "swap", "systemContainers"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&answer["pods"][0]), ["containers", "cpu", "memory", "podRef", "startTime", "swap"]);
    assert_eq!(keys(&answer["pods"][0]["containers"][0]), ["cpu", "memory", "name", "startTime", "swap"]);
}

#[test]
fn disks_network_and_processes_of_pods() {
    let answer = shown(&fixture::snapshot(2), &Readings::default());
    let time = "2023-11-14T22:21:40Z";
    let fs = |used: Option<(u64, u64)>| {
        let mut fs = json!({
            "time": time, "availableBytes": 300_000, "capacityBytes": 1_000_000, "inodesFree": 60, "inodes": 100,
        });
        if let Some((bytes, inodes)) = used {
            (fs["usedBytes"], fs["inodesUsed"]) = (json!(bytes), json!(inodes));
        }
        fs
    };
    assert_eq!(
        answer["node"]["runtime"],
        json!({"imageFs": fs(Some((5000, 9))), "containerFs": fs(Some((700, 3)))})
    );
    let pod = &answer["pods"][0];
    assert_eq!(pod["process_stats"], json!({"process_count": 3}));
    let interface = json!({"name": "eth0", "rxBytes": 10, "rxErrors": 1, "txBytes": 20, "txErrors": 2});
    let mut network = interface.clone();
    (network["time"], network["interfaces"]) = (json!(time), json!([interface]));
    assert_eq!(pod["network"], network);
    assert_eq!(pod["ephemeral-storage"], fs(Some((12_288, 7))));
    let mut volume = fs(Some((4096, 2)));
    volume["name"] = json!("data");
    assert_eq!(pod["volume"], json!([volume]));
    assert_eq!(pod["containers"][0]["rootfs"], fs(Some((8192, 5))));
    assert_eq!(pod["containers"][0]["logs"], fs(Some((0, 1))), "an empty file is known");
    // Nothing was counted of the second pod.
    for key in ["process_stats", "network", "ephemeral-storage", "volume"] {
        assert!(answer["pods"][1].get(key).is_none(), "{key}");
    }
    assert!(answer["pods"][1]["containers"][0].get("rootfs").is_none());
}
