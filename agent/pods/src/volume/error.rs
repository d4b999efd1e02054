//! Errors of volumes.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Why a volume could not be prepared or removed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    /// The check of a `hostPath` failed; the message is the kubelet's (pkg/volume/hostpath).
    #[error("hostPath type check failed: {} {fault}", path.display())]
    HostPath { path: PathBuf, fault: HostPathFault },
    /// A link or `..` leads out of the volume, or the path was changed meanwhile.
    #[error("{} leads out of the volume {}", path.display(), root.display())]
    Escape { root: PathBuf, path: PathBuf },
    #[error("medium HugePages needs huge pages of one size among the containers' limits")]
    PageSize,
    #[error("this kind of volume needs a cluster")]
    Unsupported,
    #[error("{path}: {source}")]
    Field { path: String, source: crate::fields::FieldError },
    /// Something is still mounted at this path.
    #[error("{} is still mounted and was left alone", .0.display())]
    Mounted(PathBuf),
    #[error("volume {volume:?}: {source}")]
    Of { volume: String, source: Box<VolumeError> },
}

/// Why a `hostPath` does not match its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostPathFault {
    #[error("is not a directory")]
    Directory,
    #[error("is not a file")]
    File,
    #[error("is not a socket file")]
    Socket,
    #[error("is not a character device")]
    CharDevice,
    #[error("is not a block device")]
    BlockDevice,
    #[error("is of a type that is not known")]
    Type,
}

impl VolumeError {
    pub(super) fn file(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { call, path: path.to_owned(), source }
    }

    pub(super) fn call(call: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::File { call, path: path.to_owned(), source: errno.into() }
    }

    pub(super) fn of(self, volume: &str) -> Self {
        Self::Of { volume: volume.to_owned(), source: Box::new(self) }
    }
}
