//! What a reading finds in the counters of the eBPF programs.

use std::collections::HashMap;

use super::counters::{self, Source};
use super::packed::KeptCounters;
use super::registry::Group;
use nodewarden_machine::ebpf::RawCpu;
use nodewarden_model::KernelCounters;

/// What was read of the CPU counters of many cgroups.
pub(crate) struct Counted<'a> {
    pub source: Source<'a>,
    /// By slot, of those in which something ran.
    pub changed: HashMap<u32, RawCpu>,
    /// See [`Source::running`].
    pub running: HashMap<u32, u64>,
}

impl Counted<'_> {
    /// Adds it and all other counters to what was `kept` of a cgroup, and returns that.
    pub fn update(&self, group: &Group, kept: &mut KeptCounters) -> KernelCounters {
        let before = kept.get();
        let mut counters = before.clone();
        if let Some(slot) = self.source.cpu_slot(group)
            && let Some(raw) = self.changed.get(&slot)
        {
            let now = self.running.get(&slot).copied().unwrap_or(0);
            counters::update(counters.cpu.get_or_insert_default(), raw, now);
        }
        self.source.others(group, &mut counters);
        if counters != before {
            kept.set(&mut counters);
        }
        counters
    }
}
