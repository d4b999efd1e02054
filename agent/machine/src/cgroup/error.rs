//! What can go wrong when cgroups are looked at or changed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Controller;
use super::control::{NameError, SystemdError};

/// Finding, walking, reading or changing cgroups failed.
#[derive(Debug, Error)]
pub enum CgroupError {
    #[error("no cgroup file system is mounted (looked at {mountinfo})")]
    NotMounted { mountinfo: PathBuf },
    #[error("the {controller} controller is on no mounted cgroup hierarchy")]
    ControllerMissing { controller: Controller },
    #[error("/proc/self/cgroup does not name the hierarchy mounted at {mount}")]
    UnknownHierarchy { mount: PathBuf },
    #[error("{call} {path}: {source}")]
    File { call: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error("write {text:?} to {path}: {source}")]
    Write { path: PathBuf, text: String, source: io::Error },
    #[error("{path} says {text:?}, which is no value of this file")]
    Value { path: PathBuf, text: String },
    #[error("the {controller} controller does not come down to {path}: cgroup.controllers has {offered:?}")]
    NotHandedDown { controller: Controller, path: PathBuf, offered: String },
    #[error("the root cgroup is not ours to make, change or remove")]
    Root,
    #[error(transparent)]
    Name(#[from] NameError),
}

impl CgroupError {
    pub(super) fn file(call: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::File { call, path: path.to_owned(), source: source.into() }
    }
}

impl CgroupError {
    /// What the kernel said, if it was the kernel that refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } | Self::Write { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
