//! Why a collection ended early.

use super::FsError;
use super::plan::FsFault;
use nodewarden_cri::RuntimeError;
use nodewarden_pods::volume::VolumeError;

/// What went wrong. Single removals that fail end nothing and are no such error.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Fs(#[from] FsError),
    /// In the kubelet's words: event `InvalidDiskCapacity`.
    #[error(transparent)]
    Fault(#[from] FsFault),
    #[error("the runtime tells of no file system that images are on")]
    NoImageFs,
    #[error("the figures of a file system did not come: a thread of the agent died")]
    Died,
    #[error("logs: {0}")]
    Logs(#[from] VolumeError),
    #[error("the pods of this node are not known yet: the agent has just started")]
    NotReady,
    #[error("nothing is removed in mode observe")]
    Observing,
}
