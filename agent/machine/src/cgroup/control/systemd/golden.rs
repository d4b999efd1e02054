//! Against a real kubelet's units under the systemd driver: from what was asked of the runtime and what the kubelet's
//! levels are, the properties and the files of every unit.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::super::{Bound, CpuQuota, CpuShare, Limits};
use super::properties::{Dialect, Value, properties};
use super::settle::settle;
use super::unit::Unit;
use crate::cgroup::Version;

/// The recording's.
const DIALECT: Dialect = Dialect { cgroups: Version::V2, systemd: 252 };
/// Its page size.
const PAGE: u64 = 4096;
/// What a unit has that was told nothing; the last one is a scope's `DefaultTasksMax` there.
const UNTOLD: [(&str, &str); 10] = [
    ("CPUWeight", "[not set]"),
    ("CPUQuotaPerSecUSec", "infinity"),
    ("CPUQuotaPeriodUSec", "infinity"),
    ("AllowedCPUs", ""),
    ("MemoryMin", "0"),
    ("MemoryLow", "0"),
    ("MemoryHigh", "infinity"),
    ("MemoryMax", "infinity"),
    ("MemorySwapMax", "infinity"),
    ("TasksMax", "infinity"),
];
const SCOPE_TASKS_MAX: &str = "23997";

/// One recorded cgroup.
struct Recorded<'a> {
    what: String,
    values: &'a Json,
}

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A property's value as `systemctl show` prints it.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Number(u64::MAX) => "infinity".into(),
        Value::Number(us) if name.ends_with("USec") => match us / 1_000 {
            ms if ms >= 1_000 && ms % 1_000 == 0 => format!("{}s", ms / 1_000),
            ms if ms >= 1_000 => format!("{}s {}ms", ms / 1_000, ms % 1_000),
            ms => format!("{ms}ms"),
        },
        Value::Number(number) => number.to_string(),
        Value::Bytes(bytes) => match bytes.as_slice() {
            [] => String::new(),
            [3] => "0-1".into(),
            other => panic!("the recording has two CPUs: {other:?}"),
        },
        other => panic!("{name}: {other:?}"),
    }
}

impl Recorded<'_> {
    fn unit(&self, name: &str) -> String {
        text(&self.values["systemd"][name])
    }

    /// Every recorded property equals what `limits` become, or what an untold one is.
    fn has(&self, limits: &Limits) {
        let mut wanted: BTreeMap<&str, String> =
            UNTOLD.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let path = text(&self.values["path"]).replacen("/sys/fs/cgroup", "", 1);
        let unit = Unit::of_path(&path).expect("a unit's path");
        assert_eq!(self.unit("ControlGroup"), path);
        assert_eq!(self.unit("Slice"), unit.slice().expect("in a slice"), "{}", self.what);
        if !unit.is_slice() {
            wanted.insert("TasksMax", SCOPE_TASKS_MAX.into());
        }
        for property in properties(limits, DIALECT).expect("limits") {
            wanted.insert(property.name, shown(property.name, &property.value));
        }
        for (name, wanted) in wanted {
            assert_eq!(self.unit(name), wanted, "{name} of {} for {limits:?}", self.what);
        }
    }

    /// The files of systemd's own making say what the settled limits say, save the kernel's whole pages.
    fn settles_to_the_files(&self, limits: &Limits) {
        let settled = settle(limits);
        let file = |name: &str| text(&self.values[name]);
        let quota = settled
            .cpu_quota
            .map_or("max 100000".to_owned(), |quota| format!("{} {}", quota.quota_us, quota.period_us));
        assert_eq!(file("cpu.max"), quota, "cpu.max of {}", self.what);
        let memory = match settled.memory_max {
            Some(Bound::At(bytes)) => (bytes / PAGE * PAGE).to_string(),
            Some(Bound::Max) | None => "max".to_owned(),
        };
        assert_eq!(file("memory.max"), memory, "memory.max of {}", self.what);
        let pids = settled.pids_max.unwrap_or(Bound::Max).to_string();
        assert_eq!(file("pids.max"), pids, "pids.max of {}", self.what);
        let weight =
            properties(&settled, DIALECT).expect("limits").into_iter().find(|p| p.name == "CPUWeight");
        let weight = weight.expect("every unit was told its weight");
        assert_eq!(file("cpu.weight"), shown("CPUWeight", &weight.value), "cpu.weight of {}", self.what);
    }
}

/// What the runtime was asked for, which of a sandbox is the whole pod.
fn asked(request: &Json) -> Limits {
    let number = |name: &str| request[name].as_u64();
    let quota = number("cpu_quota").map_or(Bound::Max, Bound::At);
    let swap = request["unified"]["memory.swap.max"].as_str();
    Limits {
        cpu: number("cpu_shares").map(CpuShare::Shares),
        cpu_quota: number("cpu_period").map(|period_us| CpuQuota { quota_us: quota, period_us }),
        memory_max: number("memory_limit_in_bytes").map(Bound::At),
        swap_max: swap.map(|bytes| Bound::At(bytes.parse().expect("bytes"))),
        ..Limits::default()
    }
}

/// What the kubelet sets of a pod's own cgroup, which is told no swap limit, no period alone, and a limit only where
/// every container has one: its files show whether.
fn of_pod(request: &Json, files: &Json) -> Limits {
    let limited = |file: &str| !text(&files[file]).starts_with("max");
    let asked = asked(request);
    let cpu_quota = asked.cpu_quota.filter(|quota| quota.quota_us != Bound::Max && limited("cpu.max"));
    let memory_max = asked.memory_max.filter(|_| limited("memory.max"));
    Limits { cpu_quota, memory_max, swap_max: None, ..asked }
}

#[test]
fn properties_of_every_unit() {
    let Some(recording) = nodewarden_testing::golden::load("kubelet-v2-systemd.json") else { return };
    let mut units = 0;
    for (batch, recorded) in recording["batches"].as_object().expect("batches") {
        let levels = ["levels", "levels_after_removal"].map(|key| (key, &recorded[key]));
        for (key, levels) in levels {
            for level in ["kubepods", "kubepods/burstable", "kubepods/besteffort"] {
                let values = &levels[level];
                let recorded = Recorded { what: format!("{batch} {key} {level}"), values };
                let file = |name: &str| values[name].as_u64();
                let mut limits =
                    Limits { cpu: file("cpu.weight").map(CpuShare::Weight), ..Limits::default() };
                if level == "kubepods" {
                    limits.memory_max = file("memory.max").map(Bound::At);
                    limits.pids_max = file("pids.max").map(Bound::At);
                    limits.cpuset_cpus = values["cpuset.cpus"].as_str().map(str::to_owned);
                }
                recorded.has(&limits);
                recorded.settles_to_the_files(&limits);
                units += 1;
            }
        }
        for (pod, recorded) in recorded["pods"].as_object().expect("pods") {
            let containers = recorded["containers"].as_object().expect("containers");
            let limits = of_pod(&containers["<sandbox>"]["cri_request"], &recorded["pod"]);
            let whole = Recorded { what: format!("{batch} {pod}"), values: &recorded["pod"] };
            whole.has(&limits);
            whole.settles_to_the_files(&limits);
            units += 1;
            for (name, container) in containers {
                // An init container is over by the time of the recording.
                if container["values"].is_null() {
                    continue;
                }
                let what = format!("{batch} {pod} {name}");
                let limits = match name.as_str() {
                    // containerd's own.
                    "<sandbox>" => Limits { cpu: Some(CpuShare::Shares(2)), ..Limits::default() },
                    _ => asked(&container["cri_request"]),
                };
                Recorded { what, values: &container["values"] }.has(&limits);
                units += 1;
            }
        }
    }
    assert!(units > 60, "only {units} units in the recording");
}
