//! Debian packages without installing them: an apt of our own downloads, dpkg unpacks.
//!
//! It has its own list of sources, package lists and cache in the target directory, so it needs no root and
//! changes nothing of the machine's apt. The mirror's address is taken from the machine's sources.

mod apt;
mod list;
mod machine;
mod sources;
mod version;

use std::path::PathBuf;

use thiserror::Error;

pub use apt::Apt;
pub use list::{Row, newest, upstream};
pub use machine::{Archive, Package, Suite};
pub use version::compare;

use crate::files::FileError;
use crate::process::CommandError;

/// A Debian package is not available.
#[derive(Debug, Error)]
pub enum DebianError {
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The machine's apt sources name no archive to fetch packages from.
    #[error("no Debian archive with main among the apt sources in {}", .0.display())]
    NoArchive(PathBuf),
    /// No suite has the package, or not in this version.
    #[error("no {package}{} in {suites}", .version.as_ref().map(|v| format!(" of version {v}")).unwrap_or_default())]
    NoPackage {
        /// Debian package.
        package: String,
        /// The upstream version that was wanted.
        version: Option<String>,
        /// Where it was looked for.
        suites: String,
    },
    /// apt succeeded and no package is there all the same.
    #[error("apt left no package in {}", .0.display())]
    NothingDownloaded(PathBuf),
}
