//! Who is told what probes come to.

use futures_util::future::BoxFuture;

use crate::probes::ProbeMemory;
use nodewarden_manifest::ProbeKind;
use nodewarden_model::Verdict;

/// Takes what becomes of one container's probes. Both are called by the engine's one task, in order, under no lock of
/// the engine's; they should not take long. Once its [`super::Watched`] is dropped no further call begins.
pub trait ProbeSink: Send + Sync {
    /// Takes the memory over to be saved. With a change: the future is done when it is on disk and published; the next
    /// run of this probe begins no earlier. The future is driven to its end also when the container is not watched any
    /// more.
    fn keep(&self, memory: &ProbeMemory, change: Option<&Change>) -> BoxFuture<'static, ()>;

    /// An event of the container for the journal.
    fn tell(&self, reason: &'static str, message: String);
}

/// A probe's result has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: ProbeKind,
    /// None: its first.
    pub from: Option<Verdict>,
    pub to: Verdict,
    /// Of the run that completed the threshold.
    pub output: String,
}
