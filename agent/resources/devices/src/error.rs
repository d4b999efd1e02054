//! What keeps a pod from its devices.

use super::Refusal;
use super::plugin::PluginError;

/// Why a pod is not admitted now. It is tried again: [`Self::reason`] is the word in its status meanwhile.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kubelet fails the pod; here it is tried again.
    #[error("Allocate failed due to {0}")]
    Plugin(#[from] PluginError),
    /// Other pods were faster every time, or a container was found that runs with one of them.
    #[error("devices of {resource} were taken by other pods while its plugin was asked")]
    Contended { resource: String },
    /// Nothing may be started on devices that a restart would forget.
    #[error("the devices' checkpoint cannot be written: {0}")]
    Checkpoint(String),
    #[error(
        "the devices of running containers are being asked for at the runtime, since the checkpoint was damaged"
    )]
    Recovering,
}

impl AdmissionError {
    /// Kubelet: `OutOf<resource>` and `UnexpectedAdmissionError` (pkg/kubelet/lifecycle/predicate.go).
    pub fn reason(&self) -> String {
        match self {
            Self::Refused(Refusal::Insufficient { resource, .. }) => format!("OutOf{resource}"),
            Self::Refused(Refusal::NotReady { .. } | Refusal::Unknown { .. }) | Self::Recovering => {
                "DevicePluginNotReady".to_owned()
            }
            Self::Plugin(_) | Self::Contended { .. } | Self::Checkpoint(_) => {
                "UnexpectedAdmissionError".to_owned()
            }
        }
    }
}
