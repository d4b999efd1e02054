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

mod block_io;
mod columns;
pub(crate) mod names;

use std::sync::Arc;

use columns::Columns;
use names::Cadvisor;

use super::exposition::{Exposition, push_label};
use super::number::Value;
use super::rows::{Rows, Style};
use nodewarden_model::{Machine, Snapshot};

/// Writes the whole document.
pub fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    let mut parts = Parts::new(snapshot);
    while parts.write_next(out, snapshot) {}
}

/// The document in pieces, for a client that takes one after the other.
pub struct Document {
    snapshot: Arc<Snapshot>,
    parts: Parts,
}

impl Document {
    /// Prepares the document: renders the labels of all cgroups.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { parts: Parts::new(&snapshot), snapshot }
    }

    /// Appends the next piece, of whole lines: one family at most, of 300 bytes for each cgroup. Returns
    /// false if there is none left.
    pub fn write_next(&mut self, into: &mut Vec<u8>) -> bool {
        let mut out = Exposition::piece(std::mem::take(into));
        let was_written = self.parts.write_next(&mut out, &self.snapshot);
        *into = out.into_buffer();
        was_written
    }
}

/// What is written of a snapshot one after the other.
struct Parts {
    rows: Rows,
    next: Part,
    columns: Columns,
}

enum Part {
    Machine,
    Columns,
    /// The family of this number.
    BlockIo(usize),
    End,
}

impl Parts {
    fn new(snapshot: &Snapshot) -> Self {
        Self { rows: Rows::new(snapshot, Style::Cadvisor), next: Part::Machine, columns: Columns::new() }
    }

    /// Returns false if everything was written.
    fn write_next(&mut self, out: &mut Exposition<'_>, snapshot: &Snapshot) -> bool {
        match self.next {
            Part::Machine => {
                version(out, &snapshot.machine);
                machine(out, &snapshot.machine);
                self.next = Part::Columns;
            }
            Part::Columns => {
                if !self.columns.write_next(out, &self.rows, snapshot) {
                    self.next = Part::BlockIo(0);
                }
            }
            Part::BlockIo(at) => {
                self.next = match block_io::FAMILIES.get(at) {
                    Some(family) => {
                        family.write(out, &self.rows, snapshot);
                        Part::BlockIo(at + 1)
                    }
                    None => {
                        block_io::write_usage(out, &self.rows, snapshot);
                        out.single(Cadvisor::ScrapeError.desc(), 0);
                        out.single(Cadvisor::MachineScrapeError.desc(), 0);
                        Part::End
                    }
                };
            }
            Part::End => return false,
        }
        true
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
