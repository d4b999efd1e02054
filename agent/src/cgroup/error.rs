//! What can go wrong when cgroups are looked at.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Controller;
use super::control::SystemdError;

/// Finding, walking or reading cgroups failed.
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
}

impl CgroupError {
    pub(super) fn file(call: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::File { call, path: path.to_owned(), source: source.into() }
    }
}
