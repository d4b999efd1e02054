//! Failures of the prober itself, which say nothing about the application.

use crate::http_get::{Fault, HttpError};
use nodewarden_cri::RuntimeError;

/// Why a run has no result and is not counted.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The command could not be run in the container.
    #[error("exec {command:?}: {source}")]
    Exec {
        /// Program and arguments, separated by spaces.
        command: String,
        /// The failed call of the runtime.
        source: RuntimeError,
    },
    /// The runtime responds neither to this call nor to another.
    #[error("exec {command:?}: the runtime does not answer: {source}")]
    Silent {
        /// Program and arguments, separated by spaces.
        command: String,
        /// The call that had no response.
        source: RuntimeError,
    },
    /// The request cannot be sent, the response is incomplete, or the machine lacks the resources for a
    /// connection.
    #[error("{0}")]
    Http(#[from] HttpError),
    /// The machine lacks the resources for a connection: descriptors, memory, local ports.
    #[error("{0}")]
    Dial(Fault),
    /// The probe names no host, and the pod has no address.
    #[error("the pod has no address")]
    NoAddress,
}

impl ProbeError {
    /// Whether an immediate retry may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Exec { .. } | Self::Dial(_) => true,
            Self::Http(error) => !matches!(error.fault, Fault::Host(_) | Fault::Path(_) | Fault::Header(_)),
            Self::Silent { .. } | Self::NoAddress => false,
        }
    }
}
