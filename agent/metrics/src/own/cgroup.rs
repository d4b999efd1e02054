//! The kernel programs' counters of each cgroup.

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use crate::rows::{Row, Rows, Style};
use nodewarden_model::{
    BlockCounters, CpuCounters, KernelCounters, Log2Histogram, NetworkCounters, ProcessCounters,
    ReclaimCounters, Snapshot,
};

/// Writes every family that has a cgroup in its labels.
pub(super) fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    let rows = Rows::new(snapshot, Style::Own);
    cpu(out, &rows);
    plain(out, &rows, Own::OomKills, |k| k.oom_kills.map(Value::Int));
    reclaim(out, &rows);
    plain(out, &rows, Own::Forks, |k| Some(Value::Int(process(k)?.forks)));
    plain(out, &rows, Own::Execs, |k| Some(Value::Int(process(k)?.execs)));
    plain(out, &rows, Own::Exits, |k| Some(Value::Int(process(k)?.exits)));
    plain(out, &rows, Own::SignalExits, |k| Some(Value::Int(process(k)?.signal_exits)));
    network(out, &rows);
    block(out, &rows);
}

/// `counters`, unless they have never counted anything.
fn counted<T: Default + PartialEq>(counters: Option<&T>) -> Option<&T> {
    counters.filter(|c| **c != T::default())
}

fn cpu_of(kernel: &KernelCounters) -> Option<&CpuCounters> {
    counted(kernel.cpu.as_ref())
}

fn process(kernel: &KernelCounters) -> Option<&ProcessCounters> {
    counted(kernel.process.as_ref())
}

fn plain(
    out: &mut Exposition<'_>,
    rows: &Rows<'_>,
    family: Own,
    value: fn(&KernelCounters) -> Option<Value>,
) {
    let mut writer = out.family(family.desc());
    for row in &rows.rows {
        if let Some(value) = value(&row.group.kernel) {
            writer.sample(rows.labels(row), &[], value, &[]);
        }
    }
}

/// One family of a few samples a cgroup, told apart by the label `key`.
fn split<'r, T: 'r, const N: usize>(
    out: &mut Exposition<'_>,
    rows: &'r Rows<'_>,
    family: Own,
    key: &str,
    counters: fn(&'r Row<'_>) -> Option<T>,
    values: impl Fn(T) -> [(&'static str, Value); N],
) {
    let mut writer = out.family(family.desc());
    for row in &rows.rows {
        for (which, value) in counters(row).into_iter().flat_map(&values) {
            writer.sample(rows.labels(row), &[(key, which)], value, &[]);
        }
    }
}

fn cpu(out: &mut Exposition<'_>, rows: &Rows<'_>) {
    let mut writer = out.family(Own::CpuWait.desc());
    for row in &rows.rows {
        if let Some(cpu) = cpu_of(&row.group.kernel).filter(|c| has_values(&c.wait)) {
            writer.histogram(rows.labels(row), &[], &cpu.wait);
        }
    }
    plain(out, rows, Own::OnCpu, |k| Some(Value::Nanos(cpu_of(k)?.on_cpu_ns)));
    split(
        out,
        rows,
        Own::Switches,
        "kind",
        |r| cpu_of(&r.group.kernel),
        |c: &CpuCounters| {
            [("voluntary", Value::Int(c.voluntary_switches)), ("preempted", Value::Int(c.preempted_switches))]
        },
    );
}

fn has_values(histogram: &Log2Histogram) -> bool {
    histogram.buckets.iter().any(|n| *n > 0)
}

fn reclaim(out: &mut Exposition<'_>, rows: &Rows<'_>) {
    type Values = fn(&ReclaimCounters) -> [(&'static str, Value); 2];
    let families: [(Own, Values); 3] = [
        (Own::ReclaimStall, |c| {
            [("direct", Value::Nanos(c.direct_stall_ns)), ("memcg", Value::Nanos(c.memcg_stall_ns))]
        }),
        (Own::Reclaims, |c| [("direct", Value::Int(c.direct_count)), ("memcg", Value::Int(c.memcg_count))]),
        (Own::ReclaimedPages, |c| {
            [("direct", Value::Int(c.direct_pages)), ("memcg", Value::Int(c.memcg_pages))]
        }),
    ];
    for (family, values) in families {
        split(out, rows, family, "kind", |r| counted(r.group.kernel.reclaim.as_ref()), values);
    }
}

fn network(out: &mut Exposition<'_>, rows: &Rows<'_>) {
    type Values = fn(&NetworkCounters) -> [(&'static str, Value); 2];
    let families: [(Own, Values); 2] = [
        (Own::NetworkBytes, |c| [("receive", Value::Int(c.rx_bytes)), ("transmit", Value::Int(c.tx_bytes))]),
        (Own::NetworkPackets, |c| {
            [("receive", Value::Int(c.rx_packets)), ("transmit", Value::Int(c.tx_packets))]
        }),
    ];
    for (family, values) in families {
        split(out, rows, family, "direction", |r| counted(r.group.kernel.network.as_ref()), values);
    }
}

fn block(out: &mut Exposition<'_>, rows: &Rows<'_>) {
    let mut writer = out.family(Own::BlockLatency.desc());
    for row in &rows.rows {
        let Some(BlockCounters { read, write }) = row.group.kernel.block.as_deref() else { continue };
        for (operation, histogram) in [("read", read), ("write", write)] {
            if has_values(histogram) {
                writer.histogram(rows.labels(row), &[("operation", operation)], histogram);
            }
        }
    }
}
