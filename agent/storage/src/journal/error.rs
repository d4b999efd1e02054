//! Errors of the journal.

use std::io;
use std::path::PathBuf;

/// Why the journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// When another process has locked the directory.
    #[error("the journal in {} is in use by another nodewarden agent", dir.display())]
    InUse {
        /// The journal's directory.
        dir: PathBuf,
    },
    /// When the kernel refuses a new thread.
    #[error("cannot start the journal's writer thread: {source}")]
    Thread {
        /// The kernel's error.
        source: io::Error,
    },
}

/// A failed call on one of the journal's files. It never ends the agent.
#[derive(Debug, thiserror::Error)]
#[error("journal: {call} {}: {source}", path.display())]
pub(super) struct DiskError {
    /// The call that failed.
    pub call: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

impl DiskError {
    /// For `map_err`: the error of `call` on `path`.
    pub fn at(call: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { call, path, source }
    }
}
