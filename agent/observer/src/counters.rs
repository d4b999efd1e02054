//! Converts the raw counters of a cgroup's slots into its totals: 32-bit buckets are unwrapped, the time of
//! tasks that are running is added, and no total ever decreases.

use std::collections::HashMap;

use nodewarden_ebpf_abi::UNTRACKED;

use super::registry::{Group, Place};
use nodewarden_machine::ebpf::{Cells, RawCpu, Spaces};
use nodewarden_model::{CpuCounters, KernelCounters, Topic};

/// For each topic whether its programs count.
pub type TopicsOn = [bool; Topic::ALL.len()];

/// Adds a reading to `totals`, which are those of all readings of the slot before it. `running_ns` is the
/// time of the running tasks since they were switched in. Correct as long as fewer than 2^32 waits fall into
/// a bucket between two readings.
pub(crate) fn update(totals: &mut CpuCounters, raw: &RawCpu, running_ns: u64) {
    for (total, now) in totals.wait.buckets.iter_mut().zip(raw.wait) {
        // The low half of the total is the last reading: both began at 0, and grew by the same.
        *total += u64::from(now.wrapping_sub(*total as u32));
    }
    totals.wait.sum_ns = totals.wait.sum_ns.max(raw.wait_ns);
    // A task that is switched out during the reading may be missed once: the higher reading is kept.
    totals.on_cpu_ns = totals.on_cpu_ns.max(raw.on_cpu_ns + running_ns);
    totals.voluntary_switches = raw.voluntary;
    totals.preempted_switches = raw.preempted;
}

/// The counters to read, and the topics that count.
pub(crate) struct Source<'a> {
    pub cells: &'a Cells,
    pub spaces: &'a Spaces,
    pub on: TopicsOn,
}

impl Source<'_> {
    /// Time of the running tasks since they were switched in, by slot of the cpu space, in nanoseconds. Taken
    /// after `cells.cpu`.
    pub fn running(&self, now_ns: u64) -> HashMap<u32, u64> {
        let mut by_slot = HashMap::new();
        for (slot, since) in self.cells.running() {
            *by_slot.entry(slot).or_default() += now_ns.saturating_sub(since);
        }
        by_slot
    }

    fn slot(&self, group: &Group, topic: Topic) -> Option<u32> {
        if !self.on[topic as usize] {
            return None;
        }
        let place: Place = group.places[self.spaces.of(topic.spec().space?)?]?;
        (place.slot != UNTRACKED && !place.released).then_some(place.slot)
    }

    /// The slot of a cgroup's CPU counters, if they are counted.
    pub fn cpu_slot(&self, group: &Group) -> Option<u32> {
        self.slot(group, Topic::Cpu)
    }

    /// Reads all counters except those of the CPU into `totals`. Counters that have no slot any more keep
    /// their last value.
    pub fn others(&self, group: &Group, totals: &mut KernelCounters) {
        for topic in Topic::ALL {
            if let Some(slot) = self.slot(group, topic) {
                topic.read(self.cells, slot, totals);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_wrap_without_losing_counts() {
        let mut totals = CpuCounters::default();
        let mut raw = RawCpu::default();
        raw.wait[3] = u32::MAX - 1;
        update(&mut totals, &raw, 0);
        assert_eq!(totals.wait.buckets[3], u64::from(u32::MAX) - 1);
        raw.wait[3] = 5;
        update(&mut totals, &raw, 0);
        assert_eq!(totals.wait.buckets[3], u64::from(u32::MAX) + 6);
        raw.wait[3] = 4;
        update(&mut totals, &raw, 0);
        assert_eq!(totals.wait.buckets[3], 2 * u64::from(u32::MAX) + 6, "once more around");
    }

    #[test]
    fn time_on_cpu_never_goes_back() {
        let mut totals = CpuCounters::default();
        let mut on_cpu = |on_cpu_ns, running_ns| {
            update(&mut totals, &RawCpu { on_cpu_ns, ..RawCpu::default() }, running_ns);
            totals.on_cpu_ns
        };
        assert_eq!(on_cpu(100, 50), 150);
        assert_eq!(on_cpu(100, 0), 150, "the turn ended between two looks");
        assert_eq!(on_cpu(160, 0), 160);
    }
}
