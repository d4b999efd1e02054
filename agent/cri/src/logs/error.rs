//! Errors of reading logs.

use std::io;
use std::path::{Path, PathBuf};

/// A failed system call on a log file.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct LogError {
    pub call: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl LogError {
    /// For `map_err`: adds the name of the call and the path.
    pub(super) fn at<E: Into<io::Error>>(call: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self { call, path, source: source.into() }
    }
}
