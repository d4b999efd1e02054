//! What a run of a probe came to.

use nodewarden_model::Outcome;

/// One run of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    /// What the application said, or what went wrong; at most 10 KiB.
    pub output: String,
}
