//! Comparison with a real kubelet's units under the systemd driver: from the recorded requests to the runtime
//! and the limits of the kubelet's levels follow the properties and the files of every unit.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::super::{Bound, CpuQuota, CpuShare, Limits};
use super::properties::{Dialect, Value, properties};
use super::settle::settle;
use super::unit::Unit;
use crate::cgroup::Version;
use crate::cpu_list::CpuList;

/// The recording's.
const DIALECT: Dialect = Dialect { cgroups: Version::V2, systemd: 252 };
/// Its page size.
const PAGE: u64 = 4096;
/// The properties of a unit for which nothing was set. A scope has systemd's `DefaultTasksMax` instead of the
/// last one.
const UNSET: [(&str, &str); 10] = [
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

/// One recorded cgroup.
struct Recorded<'a> {
    what: String,
    values: &'a Json,
    /// `DefaultTasksMax` of the recorded machine.
    default_tasks_max: &'a str,
}

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A property's value as `systemctl show` prints it.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Number(u64::MAX) => "infinity".into(),
        Value::Number(us) if name.ends_with("USec") => span(*us),
        Value::Number(number) => number.to_string(),
        Value::Bytes(bytes) => cpus(bytes),
        other => panic!("{name}: {other:?}"),
    }
}

/// A span of microseconds as systemd prints it (`format_timespan` of src/basic/time-util.c).
fn span(us: u64) -> String {
    const UNITS: [(u64, &str); 9] = [
        (31_557_600_000_000, "y"),
        (2_629_800_000_000, "month"),
        (604_800_000_000, "w"),
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let (mut rest, mut parts) = (us, Vec::new());
    for (size, unit) in UNITS {
        let (whole, fraction) = (rest / size, rest % size);
        if whole == 0 {
            continue;
        }
        // Below a minute the rest is a fraction with all its digits.
        if rest < 60_000_000 && fraction > 0 {
            let digits = size.ilog10() as usize;
            parts.push(format!("{whole}.{fraction:0digits$}{unit}"));
            break;
        }
        parts.push(format!("{whole}{unit}"));
        rest = fraction;
    }
    if parts.is_empty() { "0".into() } else { parts.join(" ") }
}

/// A mask of CPUs as systemd prints it: ranges with blanks between them.
fn cpus(mask: &[u8]) -> String {
    let set = (0..mask.len() * 8).filter(|cpu| mask[cpu / 8] & (1 << (cpu % 8)) != 0);
    let list: Vec<String> = set.map(|cpu| cpu.to_string()).collect();
    CpuList::parse_cpuset(&list.join(",")).expect("a list").to_string().replace(',', " ")
}

/// As `systemd-analyze timespan` of systemd 252 prints them.
#[test]
fn spans_are_written_as_systemctl_does() {
    for (us, text) in [
        (0, "0"),
        (1, "1us"),
        (999, "999us"),
        (12_500, "12.500ms"),
        (100_000, "100ms"),
        (1_500_000, "1.500000s"),
        (2_000_000, "2s"),
        (61_500_000, "1min 1.500000s"),
        (90_000_000, "1min 30s"),
        (120_000_000, "2min"),
        (3_600_000_000, "1h"),
        (90_061_000_000, "1d 1h 1min 1s"),
        (33 * 86_400_000_000, "1month 2d 13h 30min"),
    ] {
        assert_eq!(span(us), text);
    }
}

#[test]
fn masks_of_cpus_are_written_as_systemctl_does() {
    for (mask, text) in [(&[][..], ""), (&[3], "0-1"), (&[0b1001_0111, 1], "0-2 4 7-8"), (&[0, 1], "8")] {
        assert_eq!(cpus(mask), text);
    }
}

impl Recorded<'_> {
    fn unit(&self, name: &str) -> String {
        text(&self.values["systemd"][name])
    }

    /// Every recorded property equals the one computed from `limits`, or the default if none is.
    fn has(&self, limits: &Limits) {
        let mut wanted: BTreeMap<&str, String> =
            UNSET.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let path = text(&self.values["path"]).replacen("/sys/fs/cgroup", "", 1);
        let unit = Unit::of_path(&path).expect("a unit's path");
        assert_eq!(self.unit("ControlGroup"), path);
        assert_eq!(self.unit("Slice"), unit.slice().expect("in a slice"), "{}", self.what);
        if !unit.is_slice() {
            wanted.insert("TasksMax", self.default_tasks_max.to_owned());
        }
        for property in properties(limits, DIALECT).expect("limits") {
            wanted.insert(property.name, shown(property.name, &property.value));
        }
        for (name, wanted) in wanted {
            assert_eq!(self.unit(name), wanted, "{name} of {} for {limits:?}", self.what);
        }
    }

    /// The files that systemd wrote contain the settled limits, except that the kernel counts whole pages.
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
        let weight = weight.expect("every unit has a weight set");
        assert_eq!(file("cpu.weight"), shown("CPUWeight", &weight.value), "cpu.weight of {}", self.what);
    }
}

/// The limits in the request to the runtime; those of a sandbox are for the whole pod.
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

/// The limits that the kubelet sets on a pod's own cgroup: no swap limit, no period without a quota, and a
/// limit only if every container has one, which the files show.
fn of_pod(request: &Json, files: &Json) -> Limits {
    let limited = |file: &str| !text(&files[file]).starts_with("max");
    let asked = asked(request);
    let cpu_quota = asked.cpu_quota.filter(|quota| quota.quota_us != Bound::Max && limited("cpu.max"));
    let memory_max = asked.memory_max.filter(|_| limited("memory.max"));
    Limits { cpu_quota, memory_max, swap_max: None, ..asked }
}

/// `DefaultTasksMax` of the recorded machine: what the first recorded scope has, of which nothing else is
/// set.
fn default_tasks_max(recording: &Json) -> String {
    let batches = recording["batches"].as_object().expect("batches").values();
    let pods = batches.flat_map(|batch| batch["pods"].as_object().expect("pods").values());
    let mut scopes = pods.map(|pod| &pod["containers"]["<sandbox>"]["values"]["systemd"]["TasksMax"]);
    scopes.find(|value| !value.is_null()).map(text).unwrap_or_default()
}

#[test]
fn properties_of_every_unit() {
    let Some(recording) = nodewarden_testing::golden::load("kubelet-v2-systemd.json") else { return };
    let default_tasks_max = &default_tasks_max(&recording);
    let mut units = 0;
    for (batch, recorded) in recording["batches"].as_object().expect("batches") {
        let levels = ["levels", "levels_after_removal"].map(|key| (key, &recorded[key]));
        for (key, levels) in levels {
            for level in ["kubepods", "kubepods/burstable", "kubepods/besteffort"] {
                let values = &levels[level];
                if values.is_null() {
                    continue;
                }
                let what = format!("{batch} {key} {level}");
                let recorded = Recorded { what, values, default_tasks_max };
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
            let what = format!("{batch} {pod}");
            let whole = Recorded { what, values: &recorded["pod"], default_tasks_max };
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
                Recorded { what, values: &container["values"], default_tasks_max }.has(&limits);
                units += 1;
            }
        }
    }
    assert!(units > 0, "the recording has no unit");
}
