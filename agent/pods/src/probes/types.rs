//! Result of one run of a probe.

use nodewarden_model::Outcome;

/// One run of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Success, failure, or success with a warning.
    pub outcome: Outcome,
    /// Output of the application, or what failed; at most 10 KiB.
    pub output: String,
}
