//! Why privileges could not be given up.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why privileges could not be given up.
#[derive(Debug, Error)]
pub enum PrivilegesError {
    /// What the threads hold cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The signal that makes threads give up theirs has no handler.
    #[error("sigaction: {0}")]
    Handler(io::Error),
    /// A call of the calling thread was refused.
    #[error("{call}: {source}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Some threads did not do it in time, since they do not return from the kernel.
    #[error("{0} threads did not give up their capabilities in time")]
    Threads(usize),
    /// The filter of system calls was refused.
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::Error),
    /// There is no filter for this architecture.
    #[error("seccomp: {0}")]
    Backend(#[from] seccompiler::BackendError),
}
