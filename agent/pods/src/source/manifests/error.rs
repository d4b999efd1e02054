//! What can go wrong with a manifest directory.

use std::io;
use std::path::PathBuf;

/// Reading manifests failed. None of these takes a pod away.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {bytes} bytes, a manifest has at most {most}", path.display())]
    TooLong { path: PathBuf, bytes: u64, most: u64 },
    #[error("{}: there is no such file", path.display())]
    NoFile { path: PathBuf },
    #[error("{}: nothing in it: it may be half written, and to remove its pods it has to be removed", path.display())]
    Empty { path: PathBuf },
    #[error("{}: not UTF-8 from byte {at} on", path.display())]
    NotText { path: PathBuf, at: usize },
}
