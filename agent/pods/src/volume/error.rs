//! Errors of volumes.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::objects::ObjectError;

/// Why a volume could not be prepared or removed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A system call on a file of a volume failed.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// What was done, as text in the message (`create`, `mount`).
        call: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The check of a `hostPath` failed; the message is the kubelet's (pkg/volume/hostpath).
    #[error("hostPath type check failed: {} {fault}", path.display())]
    HostPath {
        /// The path on the host.
        path: PathBuf,
        /// How it differs from the type.
        fault: HostPathFault,
    },
    /// A link or `..` leads out of the volume, or the path was changed meanwhile.
    #[error("{} leads out of the volume {}", path.display(), root.display())]
    Escape {
        /// Directory of the volume.
        root: PathBuf,
        /// The path that leads out of it.
        path: PathBuf,
    },
    /// The medium of an `emptyDir` is `HugePages` without a size, and the containers' limits name no page
    /// size or several.
    #[error("medium HugePages needs huge pages of one size among the containers' limits")]
    PageSize,
    /// The volume is of a kind that this agent does not provide, or the medium of an `emptyDir` is not known.
    #[error("this agent does not provide this kind of volume")]
    Unsupported,
    /// An object that the volume names.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object does not have a key that `items` name.
    #[error("{missing}: {key}")]
    NoKey {
        /// The kubelet's words for it.
        missing: &'static str,
        /// The key.
        key: String,
    },
    /// More than one source of a projected volume (apimachinery `NewAggregate`).
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<VolumeError>),
    /// A field reference of a `downwardAPI` volume has no value.
    #[error("{path}: {source}")]
    Field {
        /// Path of the file in the volume.
        path: String,
        /// Why the reference has no value.
        source: crate::fields::FieldError,
    },
    /// A file system that a path of the pod is on.
    #[error(transparent)]
    NotAnswering(#[from] nodewarden_tasks::blocking::NotAnswering),
    /// Something is still mounted at this path.
    #[error("{} is still mounted and was left alone", .0.display())]
    Mounted(PathBuf),
    /// An error with the volume that it concerns, in the kubelet's words.
    #[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
    Of {
        /// Name of the volume in the manifest.
        volume: String,
        /// What failed.
        source: Box<VolumeError>,
    },
}

/// Why a `hostPath` does not match its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostPathFault {
    /// The type is `Directory`.
    #[error("is not a directory")]
    Directory,
    /// The type is `File`.
    #[error("is not a file")]
    File,
    /// The type is `Socket`.
    #[error("is not a socket file")]
    Socket,
    /// The type is `CharDevice`.
    #[error("is not a character device")]
    CharDevice,
    /// The type is `BlockDevice`.
    #[error("is not a block device")]
    BlockDevice,
    /// The type in the manifest is none of the kubelet's.
    #[error("is of a type that is not known")]
    Type,
}

impl VolumeError {
    /// The API server did not answer, or refused to.
    pub fn is_unasked(&self) -> bool {
        match self {
            Self::Object(ObjectError::Unread { .. } | ObjectError::Token { .. }) => true,
            Self::Several(all) => all.iter().all(Self::is_unasked),
            Self::Of { source, .. } => source.is_unasked(),
            _ => false,
        }
    }

    /// What the volume needs does not exist, as far as the API server knows: only a change there helps.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Object(error) => error.is_not_found(),
            Self::NoKey { .. } => true,
            Self::Several(all) => all.iter().all(Self::is_not_found),
            Self::Of { source, .. } => source.is_not_found(),
            _ => false,
        }
    }

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
