//! Why a probe came to nothing: the prober's own failures, which say nothing of the application.

use crate::http_get::{Fault, HttpError};
use nodewarden_cri::RuntimeError;

/// Why a run counts for nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The command could not be run in the container.
    #[error("exec {command:?}: {source}")]
    Exec { command: String, source: RuntimeError },
    /// The runtime does not answer, neither this call nor another.
    #[error("exec {command:?}: the runtime does not answer: {source}")]
    Silent { command: String, source: RuntimeError },
    /// What cannot be asked for, or an answer that broke off; or nothing is left to make a connection of.
    #[error("{0}")]
    Http(#[from] HttpError),
    /// The machine lacks what a connection takes: descriptors, memory, local ports.
    #[error("{0}")]
    Dial(Fault),
    /// The probe names no host, and the pod has no address.
    #[error("the pod has no address")]
    NoAddress,
}

impl ProbeError {
    /// Whether another try at once may go better.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Exec { .. } | Self::Dial(_) => true,
            Self::Http(error) => !matches!(error.fault, Fault::Host(_) | Fault::Path(_) | Fault::Header(_)),
            Self::Silent { .. } | Self::NoAddress => false,
        }
    }
}
