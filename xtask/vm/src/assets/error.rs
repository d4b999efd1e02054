//! Why something that a virtual machine is made of is not available.

use std::path::PathBuf;

use thiserror::Error;

use super::archive::ArchiveError;
use super::kernel::{ImageError, ModuleError};
use xtask_common::debian::DebianError;
use xtask_common::files::FileError;
use xtask_common::process::CommandError;

/// Something is not available.
#[derive(Debug, Error)]
pub enum AssetError {
    /// It could not be made.
    #[error("{title} could not be made ready\n  what to do: {advice}")]
    Make {
        /// What.
        title: String,
        /// What the user can do.
        advice: &'static str,
        /// Why.
        source: Box<AssetError>,
    },
    /// Debian's packages can't be had.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// An archive could not be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// No package has what was unpacked for.
    #[error("not among what was unpacked: {}", .0.display())]
    Missing(PathBuf),
    /// Every QEMU that Debian has crashes guests whose kernel text is patched, which attaching BPF programs
    /// does.
    #[error("no QEMU of version {wanted} or newer; {found}")]
    OldQemu {
        /// The first good version.
        wanted: u32,
        /// What there is.
        found: String,
    },
    /// No suite has a kernel of the family with all its packages.
    #[error("no whole Debian kernel {family} among {packages} packages of that name")]
    NoKernel {
        /// The family.
        family: String,
        /// How many packages have such a name.
        packages: usize,
    },
    /// The kernel image is of an unknown kind.
    #[error("cannot unpack the kernel in {}", path.display())]
    Image {
        /// The compressed image.
        path: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// A kernel module can't be read.
    #[error("cannot use the kernel module {}", path.display())]
    Module {
        /// The module's file.
        path: PathBuf,
        /// Why.
        source: ModuleError,
    },
    /// The owners of a Debian root's files can only be set by root.
    #[error("making a Debian root takes root's rights")]
    NotRoot,
}
