//! Errors of reading logs.

use std::io;
use std::path::{Path, PathBuf};

/// A failed system call on a log file.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct LogError {
    /// Name of the system call, or `compress`.
    pub call: &'static str,
    /// The log file or its directory.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl LogError {
    /// Whether the file or a directory on its path does not exist.
    pub(super) fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// For `map_err`: adds the name of the call and the path.
    pub(super) fn at<E: Into<io::Error>>(call: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self { call, path, source: source.into() }
    }
}
