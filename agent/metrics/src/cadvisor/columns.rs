//! The families with a fixed number of samples for each cgroup, and where the values come from.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use super::names::Cadvisor;
use crate::exposition::Exposition;
use crate::family::Kind;
use crate::number::Value;
use crate::rows::{Row, Rows};
use nodewarden_model::{CpuUsage, Identity, MemoryUsage, Pressure, Snapshot};

/// How many columns are read from the cgroups in one go: one at a time would take each cgroup from memory as
/// often as there are columns, and all at once need a buffer of megabytes for thousands of cgroups.
const AT_ONCE: usize = 8;

/// Samples with the same name and labels of their own, one for each cgroup.
struct Column {
    /// Columns of the same family follow each other.
    family: Cadvisor,
    own_labels: &'static [(&'static str, &'static str)],
    /// Whether they have the time of the reading.
    is_stamped: bool,
    /// Whether a removed cgroup has it too. Never a gauge that would look like a present value.
    of_removed: bool,
    value: Pick,
}

type Pick = fn(&Row<'_>, &Snapshot) -> Option<Value>;

/// Writes all of them, one after the other.
pub(super) struct Columns {
    all: Vec<Column>,
    /// The next one to be written.
    next: usize,
    /// Those whose values are in the buffers.
    read: Range<usize>,
    buffers: [Vec<Option<Value>>; AT_ONCE],
    /// Whether the family of the last one has a sample yet.
    begun: bool,
}

impl Columns {
    pub fn new() -> Self {
        Self { all: all(), next: 0, read: 0..0, buffers: Default::default(), begun: false }
    }

    /// Writes the next one. Returns false if all are written.
    pub fn write_next(&mut self, out: &mut Exposition<'_>, rows: &Rows, snapshot: &Snapshot) -> bool {
        if !self.read.contains(&self.next) {
            self.read_next(rows, snapshot);
        }
        let Some(column) = self.all.get(self.next) else { return false };
        let before = self.next.checked_sub(1).and_then(|before| self.all.get(before));
        let goes_on = before.is_some_and(|before| before.family == column.family);
        let mut writer = match goes_on {
            true => out.family_again(column.family.desc(), self.begun),
            false => out.family(column.family.desc()),
        };
        let head = writer.head(column.own_labels);
        for (text, value) in rows.texts().zip(&self.buffers[self.next - self.read.start]) {
            if let Some(value) = value {
                let end = if column.is_stamped { text.end } else { b"\n" };
                writer.row(&head, text.closed_labels, *value, end);
            }
        }
        self.begun = writer.has_begun();
        self.next += 1;
        true
    }

    /// Reads the values of the next ones from all rows.
    fn read_next(&mut self, rows: &Rows, snapshot: &Snapshot) {
        let rest = &self.all[self.next..];
        let some = &rest[..batch(rest)];
        self.buffers.iter_mut().for_each(Vec::clear);
        for row in rows.of(snapshot) {
            for (column, values) in some.iter().zip(&mut self.buffers) {
                let is_shown = column.of_removed || row.group.removed.is_none();
                values.push(if is_shown { (column.value)(&row, snapshot) } else { None });
            }
        }
        self.read = self.next..self.next + some.len();
    }
}

/// How many of `columns` are the next ones: at most [`AT_ONCE`], and all of a family.
fn batch(columns: &[Column]) -> usize {
    let most = AT_ONCE.min(columns.len());
    let ends = |at: &usize| {
        columns
            .get(*at)
            .is_none_or(|after| columns.get(at - 1).is_none_or(|last| last.family != after.family))
    };
    (1..=most).rev().find(ends).unwrap_or(most)
}

fn all() -> Vec<Column> {
    let counter_or_gauge = |&(family, value): &(Cadvisor, Pick)| {
        let of_removed = family.desc().kind != Kind::Gauge;
        Column { family, own_labels: &[], is_stamped: true, of_removed, value }
    };
    let usage = Column {
        family: Cadvisor::CpuUsage,
        own_labels: &[("cpu", "total")],
        is_stamped: true,
        of_removed: true,
        value: |r, _| Some(Value::Nanos(r.cpu?.usage_ns)),
    };
    let spec = |&(family, value): &(Cadvisor, Pick)| Column {
        family,
        own_labels: &[],
        is_stamped: false,
        of_removed: false,
        value,
    };
    let failure = |&(own_labels, value): &(&'static [(&'static str, &'static str)], Pick)| Column {
        family: Cadvisor::MemoryFailures,
        own_labels,
        is_stamped: true,
        of_removed: true,
        value,
    };
    let life = |&(family, is_stamped, value): &(Cadvisor, bool, Pick)| Column {
        family,
        own_labels: &[],
        is_stamped,
        of_removed: true,
        value,
    };
    let simple = SIMPLE.iter().map(counter_or_gauge);
    let simple = simple.chain([usage]).chain(SPECS.iter().map(spec));
    simple.chain(FAILURES.iter().map(failure)).chain(LIFE.iter().map(life)).collect()
}

/// Families with one sample per cgroup, taken from one field.
const SIMPLE: &[(Cadvisor, Pick)] = &[
    (Cadvisor::CpuUser, |r, _| r.cpu?.user_ns.map(Value::Nanos)),
    (Cadvisor::CpuSystem, |r, _| r.cpu?.system_ns.map(Value::Nanos)),
    (Cadvisor::CfsPeriods, |r, _| with_quota(r)?.periods.map(Value::Int)),
    (Cadvisor::CfsThrottledPeriods, |r, _| with_quota(r)?.throttled_periods.map(Value::Int)),
    (Cadvisor::CfsThrottledSeconds, |r, _| with_quota(r)?.throttled_ns.map(Value::Nanos)),
    (Cadvisor::MemoryCache, |r, _| r.memory?.cache_bytes.map(Value::Int)),
    (Cadvisor::MemoryRss, |r, _| r.memory?.rss_bytes.map(Value::Int)),
    (Cadvisor::MemoryKernelUsage, |r, _| r.memory?.kernel_bytes.map(Value::Int)),
    (Cadvisor::MemoryMappedFile, |r, _| r.memory?.mapped_file_bytes.map(Value::Int)),
    (Cadvisor::MemorySwap, |r, _| r.memory?.swap_bytes.map(Value::Int)),
    (Cadvisor::MemoryFailcnt, |r, _| r.memory?.failcnt.map(Value::Int)),
    (Cadvisor::MemoryUsage, |r, _| Some(Value::Int(r.memory?.usage_bytes))),
    (Cadvisor::MemoryMaxUsage, |r, _| r.memory?.max_usage_bytes.map(Value::Int)),
    (Cadvisor::MemoryWorkingSet, |r, _| Some(Value::Int(r.memory?.working_set_bytes))),
    (Cadvisor::MemoryActiveFile, |r, _| r.memory?.active_file_bytes.map(Value::Int)),
    (Cadvisor::MemoryInactiveFile, |r, _| r.memory?.inactive_file_bytes.map(Value::Int)),
    (Cadvisor::Threads, |r, _| Some(Value::Int(r.processes?.threads))),
    // In cAdvisor 0 means no limit, here and in the limits below.
    (Cadvisor::ThreadsMax, |r, _| Some(Value::Int(r.processes?.max.unwrap_or(0)))),
    (Cadvisor::OomEvents, |r, _| oom_events(r)),
    (Cadvisor::PressureCpuWaiting, |r, _| Some(waiting(r.pressures.cpu?))),
    (Cadvisor::PressureCpuStalled, |r, _| stalled(r.pressures.cpu?)),
    (Cadvisor::PressureMemoryWaiting, |r, _| Some(waiting(r.pressures.memory?))),
    (Cadvisor::PressureMemoryStalled, |r, _| stalled(r.pressures.memory?)),
    (Cadvisor::PressureIoWaiting, |r, _| Some(waiting(r.pressures.io?))),
    (Cadvisor::PressureIoStalled, |r, _| stalled(r.pressures.io?)),
];

/// The `container_spec_*` families, which carry no timestamp. At the root the limits are the machine's memory
/// and swap, as in cAdvisor's raw container handler.
const SPECS: &[(Cadvisor, Pick)] = &[
    (Cadvisor::SpecCpuPeriod, |r, _| r.cpu?.period_us.map(Value::Int)),
    (Cadvisor::SpecCpuQuota, |r, _| r.cpu?.quota_us.map(Value::Int)),
    (Cadvisor::SpecCpuShares, |r, _| {
        r.cpu?.shares.or_else(|| shares_of_weight(r.cpu?.weight?)).map(Value::Int)
    }),
    (Cadvisor::SpecMemoryLimit, |r, snapshot| {
        let memory = r.memory?;
        let limit = if is_root(r) { snapshot.machine.memory_bytes } else { memory.limit_bytes.unwrap_or(0) };
        Some(Value::Int(limit))
    }),
    // Whether there is a swap limit is known only where swap is accounted.
    (Cadvisor::SpecMemorySwapLimit, |r, snapshot| {
        let memory = r.memory?;
        if is_root(r) {
            return Some(Value::Int(snapshot.machine.swap_bytes));
        }
        memory.swap_limit_bytes.or(memory.swap_bytes.map(|_| 0)).map(Value::Int)
    }),
    (Cadvisor::SpecMemoryReservation, |r, _| Some(Value::Int(r.memory?.reservation_bytes.unwrap_or(0)))),
];

/// Page faults by their type and by whether those below the cgroup count.
const FAILURES: &[(&[(&str, &str)], Pick)] = &[
    (&[("failure_type", "pgfault"), ("scope", "container")], |r, _| {
        own_faults(r, |m| (m.own_page_faults, m.page_faults))
    }),
    (&[("failure_type", "pgmajfault"), ("scope", "container")], |r, _| {
        own_faults(r, |m| (m.own_major_page_faults, m.major_page_faults))
    }),
    (&[("failure_type", "pgfault"), ("scope", "hierarchy")], |r, _| r.memory?.page_faults.map(Value::Int)),
    (&[("failure_type", "pgmajfault"), ("scope", "hierarchy")], |r, _| {
        r.memory?.major_page_faults.map(Value::Int)
    }),
];

/// Start time and last seen. Whole seconds, as in cAdvisor.
const LIFE: &[(Cadvisor, bool, Pick)] = &[
    (Cadvisor::StartTime, false, |r, _| seconds(r.group.created)),
    (Cadvisor::LastSeen, true, |r, snapshot| seconds(r.group.removed.unwrap_or(snapshot.time))),
];

fn is_root(row: &Row<'_>) -> bool {
    matches!(*row.group.identity, Identity::Root)
}

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
pub(super) fn shares_of_weight(weight: u64) -> Option<u64> {
    (1..=10_000).contains(&weight).then(|| 2 + (weight - 1) * 262_142 / 9_999)
}

/// The cgroup's own faults where the kernel counts them, else all of them if it has nothing below it.
fn own_faults(row: &Row<'_>, of: fn(&MemoryUsage) -> (Option<u64>, Option<u64>)) -> Option<Value> {
    let (own, all) = of(row.memory?);
    own.or(all.filter(|_| row.leaf)).map(Value::Int)
}

fn seconds(time: SystemTime) -> Option<Value> {
    Some(Value::Int(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_written_in_one_go() {
        let columns = all();
        let (mut rest, mut families) = (columns.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (some, after) = rest.split_at(batch(rest));
            assert!(!some.is_empty() && some.len() <= AT_ONCE);
            let mut own: Vec<_> = some.iter().map(|column| column.family).collect();
            own.dedup();
            families.extend(own);
            rest = after;
        }
        let mut once = families.clone();
        once.sort_by_key(|family| *family as usize);
        once.dedup();
        assert_eq!(once.len(), families.len());
    }
}
