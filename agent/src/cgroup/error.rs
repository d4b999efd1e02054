//! What can go wrong when cgroups are looked at.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Controller;

/// Text in a kernel file that is not what the kernel documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("not a number")]
    Number,
    #[error("the line for {0} is missing")]
    Missing(&'static str),
}

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
    #[error("{path}: {source}")]
    Content { path: PathBuf, source: Malformed },
    /// The cgroup is in no hierarchy (any more).
    #[error("cgroup {path} does not exist")]
    Gone { path: String },
    #[error("{call} of the open files limit: {source}")]
    OpenFilesLimit { call: &'static str, source: io::Error },
    #[error("{path}: {source}")]
    Proc { path: PathBuf, source: procfs::ProcError },
}

impl CgroupError {
    pub(super) fn file(call: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::File { call, path: path.to_owned(), source: source.into() }
    }
}
