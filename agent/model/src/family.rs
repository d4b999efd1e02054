//! The constant part of a metric family: name, type, help and label keys.

/// Type of a family, as in its `# TYPE` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// A total that only grows while its source exists.
    Counter,
    /// A value that can go up and down.
    Gauge,
    /// Cumulative buckets with a sum and a count.
    Histogram,
}

impl Kind {
    /// The word in the exposition format.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The constant part of a metric family.
#[derive(Debug, PartialEq, Eq)]
pub struct Desc {
    /// The metric's name; a histogram's samples add `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// The type in the `# TYPE` line.
    pub kind: Kind,
    /// The text of the `# HELP` line: one line, no backslash and no line feed.
    pub help: &'static str,
    /// Label keys that every sample carries (not counting a histogram's `le`).
    pub labels: &'static [&'static str],
}
