//! Why a guest could not do its job.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use super::btf::BtfError;

/// A call that failed, with what it was about.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {value:?} to {}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("cannot make {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("{} is no job", path.display())]
    Job { path: PathBuf, source: serde_json::Error },
    #[error("cannot mount {kind} on {}", target.display())]
    Mount { kind: String, target: PathBuf, source: Errno },
    #[error("cannot load {}", path.display())]
    Module { path: PathBuf, source: Errno },
    #[error("cannot bring up the network device {device}")]
    Network { device: &'static str, source: io::Error },
    #[error("no block device has the serial number {0}")]
    NoDisk(&'static str),
    #[error("cannot make {} the root", path.display())]
    ChangeRoot { path: PathBuf, source: Errno },
    #[error("cannot start {}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("cannot wait for {}", path.display())]
    Wait { path: PathBuf, source: Errno },
    #[error("{command} failed: {why}")]
    Command { command: String, why: String },
    #[error("{} ended with status {status}", path.display())]
    Failed { path: PathBuf, status: i32 },
    #[error("{}", path.display())]
    Btf { path: PathBuf, source: BtfError },
}

impl GuestError {
    /// For `map_err` on reading a file.
    pub fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }

    /// For `map_err` on making a file or directory.
    pub fn make(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Make { path, source }
    }
}

/// Writes a value into a file of the kernel's.
///
/// # Errors
/// When it is refused.
pub fn write(path: impl Into<PathBuf>, value: &str) -> Result<(), GuestError> {
    let path = path.into();
    std::fs::write(&path, value).map_err(|source| GuestError::Write { path, value: value.to_owned(), source })
}

/// The error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
