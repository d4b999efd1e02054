//! What can go wrong with a manifest directory.

use std::io;
use std::path::PathBuf;

/// Reading manifests failed. None of these takes a pod away.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A system call on the directory or on a file in it failed.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// What was done, as text in the message (`read`, `open`).
        call: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is larger than a manifest may be; it is not read.
    #[error("{}: {bytes} bytes, a manifest has at most {most}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// The largest size in bytes that is read.
        most: u64,
    },
    /// A file that was asked for by its name does not exist.
    #[error("{}: there is no such file", path.display())]
    NoFile {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file is empty or has only white space. Its pods keep running until the file is removed.
    #[error("{}: nothing in it: it may be half written, and to remove its pods it has to be removed", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is not UTF-8.
    #[error("{}: not UTF-8 from byte {at} on", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Offset in bytes of the first byte that is not valid.
        at: usize,
    },
}
