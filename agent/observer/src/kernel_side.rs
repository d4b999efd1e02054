//! The counters of the eBPF programs: read for all cgroups, and freed for those that are gone.

use std::collections::HashMap;
use std::sync::Arc;

use nodewarden_ebpf_abi::{Space, UNTRACKED};
use tracing::warn;

use super::counted::Counted;
use super::counters::{Source, TopicsOn};
use super::reading::Reading;
use nodewarden_machine::ebpf::{Cells, MonotonicClock, Neighbours, RawCpu, SlotPool, Spaces};

/// The counters of the eBPF programs; they do not exist if eBPF is off altogether.
pub struct KernelSide {
    /// The arrays of counters.
    pub cells: Arc<Cells>,
    /// The slots that are free.
    pub pool: SlotPool,
    /// Which hierarchy each kind of counter belongs to.
    pub spaces: Spaces,
    /// Which topics count.
    pub on: TopicsOn,
    /// Sums of waits between cgroups, if they are counted.
    pub neighbours: Option<Neighbours>,
}

impl KernelSide {
    pub(crate) fn source(&self) -> Source<'_> {
        Source { cells: &self.cells, spaces: &self.spaces, on: self.on }
    }

    /// Reads which of these cgroups have run, and the CPU counters of those.
    pub(crate) fn count(&self, all: &mut [Reading<'_>]) -> Counted<'_> {
        let source = self.source();
        // A task that begins to run after this has a moment that only the next reading counts.
        let on_cpu: Vec<u32> = self.cells.running().into_iter().map(|(slot, _)| slot).collect();
        let slots: Vec<Option<u32>> = all.iter().map(|one| source.cpu_slot(one.group)).collect();
        let changed = all.iter().zip(&slots).filter_map(|(one, slot)| {
            let slot = (*slot)?;
            let is_same = one.own.counters.switches() == Some(self.cells.switches(slot));
            (!is_same || on_cpu.contains(&slot)).then(|| (slot, self.cells.cpu(slot)))
        });
        let changed: HashMap<u32, RawCpu> = changed.collect();
        // After the counters, see `Cells::running`.
        let running = source.running(MonotonicClock::now_ns());
        for (one, slot) in all.iter_mut().zip(slots) {
            if let Some(slot) = slot {
                one.own.ran = changed.contains_key(&slot) || running.contains_key(&slot);
            }
        }
        Counted { source, changed, running }
    }

    /// Zeroes the slot of the removed cgroup `id` in every array of its space and puts it back into the
    /// queue. Returns false if that has to wait: a task that ran in the cgroup is still on a CPU, and its
    /// turn will be counted in the slot.
    pub(crate) fn give_back(&mut self, space: usize, id: u64, slot: u32) -> bool {
        if slot == UNTRACKED {
            return true;
        }
        // First, so that no program finds the slot by this cgroup any more.
        self.pool.forget(space, id);
        if self.spaces.of(Space::Cpu) == Some(space) && self.cells.is_running(slot) {
            return false;
        }
        for used in [Space::Memory, Space::Cpu, Space::Io, Space::Unified] {
            if self.spaces.of(used) == Some(space) {
                self.cells.zero(used, slot);
            }
        }
        if let Err(error) = self.pool.give_back(space, slot) {
            warn!(%error, slot, "a counter slot is lost until the agent's next start");
        }
        true
    }
}
