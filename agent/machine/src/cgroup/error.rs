//! Errors of reading and changing cgroups.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Controller;
use super::control::{NameError, SystemdError};

/// Why cgroups could not be found, listed, read or changed.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No cgroup file system is mounted in this mount namespace.
    #[error("no cgroup file system is mounted (looked at {mountinfo})")]
    NotMounted {
        /// The list of mounts that was read.
        mountinfo: PathBuf,
    },
    /// A controller that the agent needs is not enabled in the kernel or not mounted.
    #[error("the {controller} controller is on no mounted cgroup hierarchy")]
    ControllerMissing {
        /// The missing controller.
        controller: Controller,
    },
    /// A mounted v1 hierarchy is not listed in `/proc/self/cgroup`, so its id is not known.
    #[error("/proc/self/cgroup does not name the hierarchy mounted at {mount}")]
    UnknownHierarchy {
        /// Where the hierarchy is mounted.
        mount: PathBuf,
    },
    /// A system call on a cgroup's directory or file failed.
    #[error("{call} {path}: {source}")]
    File {
        /// Name of the call, such as `mkdir`.
        call: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// systemd could not do it (only under the systemd driver).
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// The kernel refused a value.
    #[error("write {text:?} to {path}: {source}")]
    Write {
        /// The file of the cgroup.
        path: PathBuf,
        /// What was written.
        text: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of a cgroup has content that the kernel does not write there.
    #[error("{path} contains {text:?}, which is not a valid value of this file")]
    Value {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// On v2, a cgroup above does not list the controller in its `cgroup.subtree_control`.
    #[error("the {controller} controller is not enabled for {path}: cgroup.controllers contains {offered:?}")]
    NotHandedDown {
        /// The controller that the cgroup needs.
        controller: Controller,
        /// Directory of the cgroup.
        path: PathBuf,
        /// The content of its `cgroup.controllers`.
        offered: String,
    },
    /// A call would have created, changed or removed the root cgroup.
    #[error("the root cgroup must not be created, changed or removed")]
    Root,
    /// A path is not the name of a cgroup.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl CgroupError {
    pub(super) fn file(call: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::File { call, path: path.to_owned(), source: source.into() }
    }
}

impl CgroupError {
    /// The kernel's error number; `None` if the error is not that of a system call on a cgroup file.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } | Self::Write { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
