//! The metric families of a cgroup's kernel counters.

use super::KernelCounters;
use crate::family::{Desc, Kind};
use crate::histogram::Log2Histogram;

/// Label keys of a cgroup's samples, sorted.
pub(super) const GROUP: &[&str] = &["container", "id", "namespace", "pod"];
/// [`GROUP`] with a label that distinguishes a few samples of one cgroup.
pub(super) const GROUP_KIND: &[&str] = &["container", "id", "kind", "namespace", "pod"];
/// [`GROUP`] with `receive` or `transmit`.
pub(super) const GROUP_DIRECTION: &[&str] = &["container", "direction", "id", "namespace", "pod"];
/// [`GROUP`] with `read` or `write`.
pub(super) const GROUP_OPERATION: &[&str] = &["container", "id", "namespace", "operation", "pod"];

/// A sample's value.
#[derive(Debug, Clone, Copy)]
pub enum Figure<'a> {
    /// A number that is shown as it is.
    Count(u64),
    /// Nanoseconds, shown as seconds.
    Nanos(u64),
    /// Latencies in nanoseconds, shown in seconds; left out while the histogram is empty.
    Histogram(&'a Log2Histogram),
}

/// Receives one sample: the label that distinguishes it from the cgroup's others, if there are any, and its
/// value.
pub type Sample<'a> = &'a mut dyn FnMut(Option<(&str, &str)>, Figure<'_>);

/// A family with samples for each cgroup, read from its kernel counters.
#[derive(Debug)]
pub struct CgroupFamily {
    /// Name, type, help and label keys.
    pub desc: Desc,
    /// Calls [`Sample`] for each sample of one cgroup.
    pub samples: fn(&KernelCounters, Sample<'_>),
}

impl CgroupFamily {
    /// A family of counters.
    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        samples: fn(&KernelCounters, Sample<'_>),
    ) -> Self {
        Self { desc: Desc { name, kind: Kind::Counter, help, labels }, samples }
    }

    /// A family of histograms.
    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        samples: fn(&KernelCounters, Sample<'_>),
    ) -> Self {
        Self { desc: Desc { name, kind: Kind::Histogram, help, labels }, samples }
    }
}
