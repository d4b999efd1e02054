//! What is fixed about a metric family: name, type, help and label keys; and the families of a cgroup's
//! kernel counters.

use crate::{KernelCounters, Log2Histogram};

/// Type of a family, as its `# TYPE` line says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The word in the exposition format.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is fixed about a family.
#[derive(Debug, PartialEq, Eq)]
pub struct Desc {
    pub name: &'static str,
    pub kind: Kind,
    /// One line, no backslash and no line feed.
    pub help: &'static str,
    /// Label keys that every sample carries (a histogram's `le` aside).
    pub labels: &'static [&'static str],
}

/// Label keys of a cgroup's samples, in order.
pub const GROUP: &[&str] = &["container", "id", "namespace", "pod"];
/// The same with a label that tells a few samples of a cgroup apart.
pub const GROUP_KIND: &[&str] = &["container", "id", "kind", "namespace", "pod"];
pub const GROUP_DIRECTION: &[&str] = &["container", "direction", "id", "namespace", "pod"];
pub const GROUP_OPERATION: &[&str] = &["container", "id", "namespace", "operation", "pod"];

/// A sample's value.
#[derive(Debug, Clone, Copy)]
pub enum Figure<'a> {
    Count(u64),
    /// Nanoseconds, shown as seconds.
    Nanos(u64),
    /// Left out while it is empty.
    Histogram(&'a Log2Histogram),
}

/// Takes one sample: the label that tells it from the cgroup's others, if there are any, and its value.
pub type Sample<'a> = &'a mut dyn FnMut(Option<(&str, &str)>, Figure<'_>);

/// A family with samples of each cgroup, out of its kernel counters.
#[derive(Debug)]
pub struct CgroupFamily {
    pub desc: Desc,
    /// Hands over the samples of one cgroup.
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
