//! The kernel programs' counters of each cgroup: the families of every topic.

use crate::exposition::Exposition;
use crate::number::Value;
use crate::rows::{Rows, Style};
use nodewarden_model::{CgroupFamily, Figure, Log2Histogram, Snapshot, Topic};

/// Writes every family that has a cgroup in its labels.
pub(super) fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    let rows = Rows::new(snapshot, Style::Own);
    for topic in Topic::ALL {
        for family in topic.spec().families {
            write_family(out, &rows, snapshot, family);
        }
    }
}

fn write_family(out: &mut Exposition<'_>, rows: &Rows, snapshot: &Snapshot, family: &'static CgroupFamily) {
    let mut writer = out.family(&family.desc);
    for row in rows.of(snapshot) {
        let labels = row.text.labels();
        (family.samples)(&row.group.kernel, &mut |label, figure| {
            let extra = label.as_slice();
            match figure {
                Figure::Count(n) => writer.sample(labels, extra, Value::Int(n), &[]),
                Figure::Nanos(n) => writer.sample(labels, extra, Value::Nanos(n), &[]),
                Figure::Histogram(histogram) if has_values(histogram) => {
                    writer.histogram(labels, extra, histogram);
                }
                Figure::Histogram(_) => {}
            }
        });
    }
}

fn has_values(histogram: &Log2Histogram) -> bool {
    histogram.buckets.iter().any(|n| *n > 0)
}
