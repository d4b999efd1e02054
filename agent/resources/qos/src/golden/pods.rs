//! pods.json: oom_score_adj of every container, and the resources of the pod's cgroup.

use serde_json::Value;

use super::super::fixture::{Machine, V1};
use super::super::oom;
use super::super::pod::limits;
use super::{entries, number, pod};
use nodewarden_machine::cgroup::control::{Bound, CpuShare};
use nodewarden_testing::golden;

#[test]
fn scores_are_those_of_the_kubelet() {
    let Some(rows) = golden::load("pods.json") else { return };
    for row in rows.as_array().expect("rows") {
        let pod = pod(&row["pod"]);
        let capacity = number(&row["mem_capacity"]);
        let all = || pod.init_containers.iter().chain(&pod.containers);
        assert_eq!(all().count(), row["oom_score_adj"].as_object().expect("an object").len());
        for (name, adjust) in entries(&row["oom_score_adj"]) {
            let container = all().find(|c| c.name == *name).expect("the container");
            let found = oom::container(&pod, container, capacity);
            assert_eq!(Some(i64::from(found)), adjust.as_i64(), "{} {name}", pod.name);
        }
    }
}

/// A value that the kubelet writes: `null` and 0 are not written, and −1 is "no limit".
fn bound(value: &Value) -> Bound {
    match value.as_i64() {
        None | Some(-1 | 0) => Bound::Max,
        Some(n) => Bound::At(u64::try_from(n).expect("no negative number but -1")),
    }
}

#[test]
fn limits_of_pods_are_those_of_the_kubelet() {
    let Some(rows) = golden::load("pods.json") else { return };
    let mut machine = Machine::new(V1);
    for (key, cpu_cfs_quota) in [("resource_config", true), ("resource_config_no_cfs_quota", false)] {
        machine.settings.cpu_cfs_quota = cpu_cfs_quota;
        for row in rows.as_array().expect("rows") {
            let pod = pod(&row["pod"]);
            let limits = limits(&pod, machine.node());
            let wanted = &row[key];
            let name = &pod.name;
            assert_eq!(limits.cpu, Some(CpuShare::Shares(number(&wanted["cpu_shares"]))), "{name}");
            assert_eq!(limits.memory_max, Some(bound(&wanted["memory"])), "{name} {wanted}");
            let quota = limits.cpu_quota.expect("set");
            assert_eq!(quota.quota_us, bound(&wanted["cpu_quota"]), "{name} {wanted}");
            // Without a quota the kernel's default period is left.
            let period = wanted["cpu_period"].as_u64().unwrap_or(100_000);
            assert_eq!(quota.period_us, period, "{name}");
        }
    }
}
