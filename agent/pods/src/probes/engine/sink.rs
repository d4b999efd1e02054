//! Receiver of the results of probes.

use futures_util::future::BoxFuture;

use crate::probes::ProbeMemory;
use nodewarden_manifest::ProbeKind;
use nodewarden_model::Verdict;

/// Receives the results of one container's probes. Both methods are called by the engine's task, in order and
/// without holding a lock of the engine; they must not block. After the [`super::Watched`] is dropped no
/// further call begins.
pub trait ProbeSink: Send + Sync {
    /// Saves the memory. If there is a change, the future completes when it is on disk and published; the
    /// next run of this probe begins after that. The future is run to its end even if the container is no
    /// longer watched.
    fn keep(&self, memory: &ProbeMemory, change: Option<&Change>) -> BoxFuture<'static, ()>;

    /// Records an event of the container in the journal.
    fn record_event(&self, reason: &'static str, message: String);
}

/// A change of a probe's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The probe whose result changed.
    pub kind: ProbeKind,
    /// The previous result; `None` if this is the first.
    pub from: Option<Verdict>,
    /// The new result.
    pub to: Verdict,
    /// Output of the run that reached the threshold.
    pub output: String,
}
