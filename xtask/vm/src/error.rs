//! Why guests could not be booted at all (a guest that fails is a verdict, not this).

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::assets::ArchiveError;
use super::guest::ChoiceError;
use super::prepare::PrepareError;

/// An error of the caller's.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Guests can't be booted.
#[derive(Debug, Error)]
pub enum VmError {
    /// The options make no sense together.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The programs for the guest could not be built.
    #[error(transparent)]
    Build(BoxedError),
    /// QEMU, a kernel or a disk is not available.
    #[error("something that virtual machines need is not available")]
    Prepare(#[from] PrepareError),
    /// The guest's memory file system could not be made.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// QEMU could not be started or awaited.
    #[error("cannot {action} {}", path.display())]
    Qemu {
        /// What was tried.
        action: &'static str,
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An agent that the verifier refuses could not be made for the harness's own test.
    #[error("cannot make an agent that the kernel refuses: {0}")]
    Refused(#[from] super::refused::RefusedError),
    /// A node's pods need a network.
    #[error("the network plugins bridge, host-local and loopback are not there: run `cargo xtask setup`")]
    NoNetworkPlugins,
    /// What the tests need to start guests could not be written.
    #[error("the plan of guests could not be written")]
    Plan(#[source] serde_json::Error),
    /// The tests could not be started.
    #[error("cannot start {}", path.display())]
    Tests {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A shell or a soak test is for one guest.
    #[error("this needs one kernel: 5.10, 6.1, 6.12 or 7")]
    OneKernel,
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

impl VmError {
    /// For `map_err` on a file operation.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

/// The error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
