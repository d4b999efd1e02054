//! Limits in the form of the recordings: the content of a cgroup's files after they were written.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::weight::weight_linear;
use nodewarden_machine::cgroup::Version;
use nodewarden_machine::cgroup::control::{Bound, CpuShare, Limits};

const PAGE: u64 = 4096;
/// What v1 reads for no limit on memory.
const V1_NO_LIMIT: u64 = (i64::MAX as u64) / PAGE * PAGE;

/// The files that `limits` sets, with their content.
pub(super) fn files(limits: &Limits, version: Version) -> BTreeMap<String, Value> {
    let mut files = match version {
        Version::V1 => v1(limits),
        Version::V2 => v2(limits),
    };
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            files.insert(name.to_owned(), value);
        }
    };
    add("pids.max", limits.pids_max.map(bound));
    add("cpuset.cpus", limits.cpuset_cpus.clone().map(Value::String));
    files
}

fn v1(limits: &Limits) -> BTreeMap<String, Value> {
    let mut files = BTreeMap::new();
    let mut add = |name: &str, value: Option<Value>| value.map(|v| files.insert(name.to_owned(), v));
    let memory = |b: Bound| match b {
        Bound::At(n) => json!(n / PAGE * PAGE),
        Bound::Max => json!(V1_NO_LIMIT),
    };
    add(
        "cpu.shares",
        limits.cpu.map(|share| match share {
            CpuShare::Shares(n) => json!(n),
            CpuShare::Weight(_) => panic!("no weight on v1"),
        }),
    );
    add(
        "cpu.cfs_quota_us",
        limits.cpu_quota.map(|q| match q.quota_us {
            Bound::At(n) => json!(n),
            Bound::Max => json!(-1),
        }),
    );
    add("cpu.cfs_period_us", limits.cpu_quota.map(|q| json!(q.period_us)));
    add("memory.limit_in_bytes", limits.memory_max.map(memory));
    add("memory.memsw.limit_in_bytes", limits.memsw_max.map(memory));
    files
}

fn v2(limits: &Limits) -> BTreeMap<String, Value> {
    let mut files = BTreeMap::new();
    let mut add = |name: &str, value: Option<Value>| value.map(|v| files.insert(name.to_owned(), v));
    let pages = |n: u64| n / PAGE * PAGE;
    let memory = |b: Bound| match b {
        Bound::At(n) => json!(pages(n)),
        Bound::Max => bound(b),
    };
    add(
        "cpu.weight",
        limits.cpu.map(|share| match share {
            CpuShare::Shares(n) => json!(weight_linear(n)),
            CpuShare::Weight(n) => json!(n),
        }),
    );
    add("cpu.max", limits.cpu_quota.map(|q| json!(format!("{} {}", q.quota_us, q.period_us))));
    add("cpu.idle", limits.cpu_idle.map(|idle| json!(u8::from(idle))));
    add("memory.max", limits.memory_max.map(memory));
    add("memory.min", limits.memory_min.map(|n| json!(pages(n))));
    add("memory.low", limits.memory_low.map(|n| json!(pages(n))));
    add("memory.high", limits.memory_high.map(memory));
    add("memory.swap.max", limits.swap_max.map(memory));
    add("memory.oom.group", limits.oom_group.map(|group| json!(u8::from(group))));
    for (size, max) in limits.hugetlb.iter() {
        add(&format!("hugetlb.{size}.max"), Some(bound(max)));
    }
    files
}

fn bound(bound: Bound) -> Value {
    match bound {
        Bound::At(n) => json!(n),
        Bound::Max => json!("max"),
    }
}
