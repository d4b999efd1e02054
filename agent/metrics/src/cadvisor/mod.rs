//! `/metrics/cadvisor`: the kubelet's container and machine families, with cAdvisor's formulas, labels and
//! sample timestamps.
//!
//! Decisions where the kubelet leaves a choice:
//!
//! - Every cgroup of the snapshot is shown under its path as `id`, also those that a kubelet configures its
//!   cAdvisor to ignore (systemd units, sessions): with empty `container` and `pod` labels they change no
//!   dashboard that selects containers.
//! - A removed cgroup keeps its counters, its start time and when it was last seen, with the time of the last
//!   reading; its gauges (memory in use, limits) are left out, since they would look like present values.
//! - `container_memory_failures_total{scope="container"}` is the cgroup's own count where the kernel has one
//!   (v1). v2 has only the hierarchical count, which cAdvisor repeats for both scopes; here it is
//!   repeated only for a cgroup without children, where the two are the same.
//! - `container_oom_events_total` counts the processes of this very cgroup that were killed, from the kernel
//!   programs; with the OOM topic off, from `memory.events` (which on v2 includes the children's).
//!
//! The families that are left out are listed in `names::LEFT_OUT`, each with the reason.

pub(crate) mod names;

use std::time::UNIX_EPOCH;

use names::Cadvisor;

use super::exposition::{Exposition, push_label};
use super::family::Kind;
use super::number::Value;
use super::rows::{Row, Rows, Style};
use nodewarden_model::{CpuUsage, Identity, IoUsage, Machine, Pressure, Snapshot};

/// Writes the whole document.
pub fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    version(out, &snapshot.machine);
    machine(out, &snapshot.machine);
    let rows = Rows::new(snapshot, Style::Cadvisor);
    for &(family, value) in SIMPLE {
        each(out, &rows, family, &[], value);
    }
    each(out, &rows, Cadvisor::CpuUsage, &[("cpu", "total")], |r| Some(Value::Nanos(r.cpu?.usage_ns)));
    specs(out, &rows, &snapshot.machine);
    memory_failures(out, &rows);
    block_io(out, &rows);
    life(out, &rows, snapshot);
    out.single(Cadvisor::ScrapeError.desc(), 0);
    out.single(Cadvisor::MachineScrapeError.desc(), 0);
}

type Pick = fn(&Row<'_>) -> Option<Value>;

/// Families with one sample per cgroup, taken from one field.
const SIMPLE: &[(Cadvisor, Pick)] = &[
    (Cadvisor::CpuUser, |r| r.cpu?.user_ns.map(Value::Nanos)),
    (Cadvisor::CpuSystem, |r| r.cpu?.system_ns.map(Value::Nanos)),
    (Cadvisor::CfsPeriods, |r| with_quota(r)?.periods.map(Value::Int)),
    (Cadvisor::CfsThrottledPeriods, |r| with_quota(r)?.throttled_periods.map(Value::Int)),
    (Cadvisor::CfsThrottledSeconds, |r| with_quota(r)?.throttled_ns.map(Value::Nanos)),
    (Cadvisor::MemoryCache, |r| r.memory?.cache_bytes.map(Value::Int)),
    (Cadvisor::MemoryRss, |r| r.memory?.rss_bytes.map(Value::Int)),
    (Cadvisor::MemoryKernelUsage, |r| r.memory?.kernel_bytes.map(Value::Int)),
    (Cadvisor::MemoryMappedFile, |r| r.memory?.mapped_file_bytes.map(Value::Int)),
    (Cadvisor::MemorySwap, |r| r.memory?.swap_bytes.map(Value::Int)),
    (Cadvisor::MemoryFailcnt, |r| r.memory?.failcnt.map(Value::Int)),
    (Cadvisor::MemoryUsage, |r| Some(Value::Int(r.memory?.usage_bytes))),
    (Cadvisor::MemoryMaxUsage, |r| r.memory?.max_usage_bytes.map(Value::Int)),
    (Cadvisor::MemoryWorkingSet, |r| Some(Value::Int(r.memory?.working_set_bytes))),
    (Cadvisor::MemoryActiveFile, |r| r.memory?.active_file_bytes.map(Value::Int)),
    (Cadvisor::MemoryInactiveFile, |r| r.memory?.inactive_file_bytes.map(Value::Int)),
    (Cadvisor::Threads, |r| Some(Value::Int(r.processes?.threads))),
    // In cAdvisor 0 means no limit, here and in the limits below.
    (Cadvisor::ThreadsMax, |r| Some(Value::Int(r.processes?.max.unwrap_or(0)))),
    (Cadvisor::OomEvents, oom_events),
    (Cadvisor::PressureCpuWaiting, |r| Some(waiting(r.pressures.cpu?))),
    (Cadvisor::PressureCpuStalled, |r| stalled(r.pressures.cpu?)),
    (Cadvisor::PressureMemoryWaiting, |r| Some(waiting(r.pressures.memory?))),
    (Cadvisor::PressureMemoryStalled, |r| stalled(r.pressures.memory?)),
    (Cadvisor::PressureIoWaiting, |r| Some(waiting(r.pressures.io?))),
    (Cadvisor::PressureIoStalled, |r| stalled(r.pressures.io?)),
];

/// The CPU figures where a quota applies; without one cAdvisor shows no `cfs` family.
fn with_quota<'a>(row: &Row<'a>) -> Option<&'a CpuUsage> {
    row.cpu.filter(|cpu| cpu.quota_us.is_some())
}

fn oom_events(row: &Row<'_>) -> Option<Value> {
    row.group.kernel.oom_kills.or(row.memory.and_then(|m| m.events.oom_kill)).map(Value::Int)
}

fn waiting(pressure: Pressure) -> Value {
    Value::Micros(pressure.some.total_us)
}

fn stalled(pressure: Pressure) -> Option<Value> {
    pressure.full.map(|line| Value::Micros(line.total_us))
}

/// v2 weight as v1 shares, by cAdvisor's `convertCPUWeightToCPULimit`. `None` outside 1…10000.
fn shares_of_weight(weight: u64) -> Option<u64> {
    (1..=10_000).contains(&weight).then(|| 2 + (weight - 1) * 262_142 / 9_999)
}

/// Writes one family with at most one sample per cgroup. Gauges of removed cgroups are left out.
fn each(
    out: &mut Exposition<'_>,
    rows: &Rows<'_>,
    family: Cadvisor,
    extra: &[(&str, &str)],
    value: impl Fn(&Row<'_>) -> Option<Value>,
) {
    let desc = family.desc();
    let mut writer = out.family(desc);
    for row in &rows.rows {
        if desc.kind == Kind::Gauge && row.group.removed.is_some() {
            continue;
        }
        if let Some(value) = value(row) {
            writer.sample(rows.labels(row), extra, value, rows.stamp(row));
        }
    }
}

/// The `container_spec_*` families, which carry no timestamp. At the root the limits are the machine's memory
/// and swap, as in cAdvisor's raw container handler.
fn specs(out: &mut Exposition<'_>, rows: &Rows<'_>, machine: &Machine) {
    let is_root = |r: &Row<'_>| *r.group.identity == Identity::Root;
    type PickSpec<'p> = &'p dyn Fn(&Row<'_>) -> Option<u64>;
    let limits: &[(Cadvisor, PickSpec<'_>)] = &[
        (Cadvisor::SpecCpuPeriod, &|r| r.cpu?.period_us),
        (Cadvisor::SpecCpuQuota, &|r| r.cpu?.quota_us),
        (Cadvisor::SpecCpuShares, &|r| r.cpu?.shares.or_else(|| shares_of_weight(r.cpu?.weight?))),
        (Cadvisor::SpecMemoryLimit, &|r| {
            let memory = r.memory?;
            Some(if is_root(r) { machine.memory_bytes } else { memory.limit_bytes.unwrap_or(0) })
        }),
        // Whether there is a swap limit is known only where swap is accounted.
        (Cadvisor::SpecMemorySwapLimit, &|r| {
            let memory = r.memory?;
            if is_root(r) {
                return Some(machine.swap_bytes);
            }
            memory.swap_limit_bytes.or(memory.swap_bytes.map(|_| 0))
        }),
        (Cadvisor::SpecMemoryReservation, &|r| Some(r.memory?.reservation_bytes.unwrap_or(0))),
    ];
    for (family, value) in limits {
        let mut writer = out.family(family.desc());
        for row in rows.rows.iter().filter(|r| r.group.removed.is_none()) {
            if let Some(value) = value(row) {
                writer.sample(rows.labels(row), &[], Value::Int(value), &[]);
            }
        }
    }
}

fn memory_failures(out: &mut Exposition<'_>, rows: &Rows<'_>) {
    let mut writer = out.family(Cadvisor::MemoryFailures.desc());
    for row in &rows.rows {
        let Some(memory) = row.memory else { continue };
        let own = |own: Option<u64>, all: Option<u64>| own.or(all.filter(|_| row.leaf));
        let samples = [
            ("pgfault", "container", own(memory.own_page_faults, memory.page_faults)),
            ("pgmajfault", "container", own(memory.own_major_page_faults, memory.major_page_faults)),
            ("pgfault", "hierarchy", memory.page_faults),
            ("pgmajfault", "hierarchy", memory.major_page_faults),
        ];
        for (failure, scope, value) in samples {
            if let Some(value) = value {
                let extra = [("failure_type", failure), ("scope", scope)];
                writer.sample(rows.labels(row), &extra, Value::Int(value), rows.stamp(row));
            }
        }
    }
}

fn block_io(out: &mut Exposition<'_>, rows: &Rows<'_>) {
    type PickIo = fn(&IoUsage) -> u64;
    let families: [(Cadvisor, PickIo); 4] = [
        (Cadvisor::FsReadsBytes, |io| io.read_bytes),
        (Cadvisor::FsReads, |io| io.reads),
        (Cadvisor::FsWritesBytes, |io| io.write_bytes),
        (Cadvisor::FsWrites, |io| io.writes),
    ];
    for (family, value) in families {
        let mut writer = out.family(family.desc());
        for row in &rows.rows {
            for io in row.io {
                // cAdvisor leaves the label empty for a device without a name; two of them would collide.
                let number;
                let device = match &io.device {
                    Some(path) => path,
                    None => {
                        number = format!("{}:{}", io.major, io.minor);
                        &number
                    }
                };
                writer.sample(
                    rows.labels(row),
                    &[("device", device)],
                    Value::Int(value(io)),
                    rows.stamp(row),
                );
            }
        }
    }
    let mut writer = out.family(Cadvisor::BlkioUsage.desc());
    for row in &rows.rows {
        for io in row.io {
            let (major, minor) = (io.major.to_string(), io.minor.to_string());
            for (operation, value) in [("Read", io.read_bytes), ("Write", io.write_bytes)] {
                let extra = [
                    ("device", io.device.as_deref().unwrap_or("")),
                    ("major", &major),
                    ("minor", &minor),
                    ("operation", operation),
                ];
                writer.sample(rows.labels(row), &extra, Value::Int(value), rows.stamp(row));
            }
        }
    }
}

/// Start time and last seen, which are also shown for a removed cgroup. Whole seconds, as in cAdvisor.
fn life(out: &mut Exposition<'_>, rows: &Rows<'_>, snapshot: &Snapshot) {
    let seconds = |time: std::time::SystemTime| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs());
    let mut writer = out.family(Cadvisor::StartTime.desc());
    for row in &rows.rows {
        if let Some(value) = seconds(row.group.created) {
            writer.sample(rows.labels(row), &[], Value::Int(value), &[]);
        }
    }
    let mut writer = out.family(Cadvisor::LastSeen.desc());
    for row in &rows.rows {
        if let Some(value) = seconds(row.group.removed.unwrap_or(snapshot.time)) {
            writer.sample(rows.labels(row), &[], Value::Int(value), rows.stamp(row));
        }
    }
}

/// The labels with the versions of cAdvisor and Docker are empty, as in a kubelet.
fn version(out: &mut Exposition<'_>, machine: &Machine) {
    let extra = [
        ("cadvisorRevision", ""),
        ("cadvisorVersion", ""),
        ("dockerVersion", ""),
        ("kernelVersion", &*machine.kernel_version),
        ("osVersion", &*machine.os_version),
    ];
    out.family(Cadvisor::VersionInfo.desc()).sample(&[], &extra, Value::Int(1), &[]);
}

fn machine(out: &mut Exposition<'_>, machine: &Machine) {
    let mut labels = Vec::new();
    let pairs = [
        ("boot_id", &machine.boot_id),
        ("machine_id", &machine.machine_id),
        ("system_uuid", &machine.system_uuid),
    ];
    for (key, value) in pairs {
        push_label(&mut labels, 0, key, value);
    }
    let values = [
        (Cadvisor::MachineCpuCores, u64::from(machine.cpus)),
        (Cadvisor::MachineMemory, machine.memory_bytes),
        (Cadvisor::MachineSwap, machine.swap_bytes),
    ];
    for (family, value) in values {
        out.family(family.desc()).sample(&labels, &[], Value::Int(value), &[]);
    }
}

#[cfg(test)]
mod tests;
