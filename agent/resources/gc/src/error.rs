//! The error of garbage collection.

use nodewarden_cri::RuntimeError;
use nodewarden_pods::volume::VolumeError;

use super::FsError;
use super::plan::FsFault;

/// Why a collection ended early. A single failed removal does not end a collection, and is not such an error.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// A call to the container runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The figures of a file system cannot be read.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// A file system reports no capacity; the kubelet's text for event `InvalidDiskCapacity`.
    #[error(transparent)]
    Fault(#[from] FsFault),
    /// The runtime reports no file system for images.
    #[error("the runtime reports no file system for images")]
    NoImageFs,
    /// A thread that read a file system or wrote the record of images has panicked.
    #[error("a thread of the agent that accesses the disk has panicked")]
    Panicked,
    /// A file system does not answer.
    #[error(transparent)]
    NotAnswering(#[from] nodewarden_tasks::blocking::NotAnswering),
    /// The logs cannot be listed.
    #[error("logs: {0}")]
    Logs(#[from] VolumeError),
    /// The agent has just started, and does not know its pods yet.
    #[error("the pods of this node are not known yet: the agent has just started")]
    NotReady,
    /// Mode observe: nothing may be removed.
    #[error("nothing is removed in mode observe")]
    Observing,
}
