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

mod columns;
pub(crate) mod names;

use names::Cadvisor;

use super::exposition::{Exposition, push_label};
use super::number::Value;
use super::rows::{Rows, Style};
use nodewarden_model::{IoUsage, Machine, Snapshot};

/// Writes the whole document.
pub fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    version(out, &snapshot.machine);
    machine(out, &snapshot.machine);
    let rows = Rows::new(snapshot, Style::Cadvisor);
    columns::write(out, &rows, snapshot);
    block_io(out, &rows);
    out.single(Cadvisor::ScrapeError.desc(), 0);
    out.single(Cadvisor::MachineScrapeError.desc(), 0);
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
                let head = writer.head(&[("device", device)]);
                let (labels, end) = (rows.closed_labels(row), rows.stamped_end(row));
                writer.row(&head, labels, Value::Int(value(io)), end);
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
                let head = writer.head(&extra);
                writer.row(&head, rows.closed_labels(row), Value::Int(value), rows.stamped_end(row));
            }
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
