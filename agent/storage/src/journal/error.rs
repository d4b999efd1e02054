//! What the journal can fail at.

use std::io;
use std::path::PathBuf;

/// The journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal in {} is in use by another nodewarden agent", dir.display())]
    InUse { dir: PathBuf },
    #[error("cannot start the journal's writer thread: {source}")]
    Thread { source: io::Error },
}

/// A call on one of the journal's files that failed. Never ends the agent.
#[derive(Debug, thiserror::Error)]
#[error("journal: {call} {}: {source}", path.display())]
pub struct DiskError {
    /// The call that failed.
    pub call: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

impl DiskError {
    /// For `map_err`: names the call and the path.
    pub fn at(call: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { call, path, source }
    }
}
