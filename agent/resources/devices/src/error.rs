//! The error of admission.

use nodewarden_model::PodReason;

use crate::{PluginError, Refusal};

/// Why a pod is not admitted now. It is tried again; [`Self::reason`] is shown in its status meanwhile.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// Not enough devices, or their plugin is not connected.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A call to a plugin failed. The kubelet fails the pod; this agent tries again.
    #[error("Allocate failed due to {0}")]
    Plugin(#[from] PluginError),
    /// Other pods took the devices in every attempt, or a container was found that already runs with one of
    /// them.
    #[error("devices of {resource} were taken by other pods while its plugin was asked")]
    Contended {
        /// An extended resource that the pod asks for.
        resource: String,
    },
    /// The checkpoint could not be written. No container may start with devices that a restart would forget.
    #[error("the devices' checkpoint cannot be written: {0}")]
    Checkpoint(String),
    /// The checkpoint was damaged, and the runtime has not been asked yet which containers have which
    /// devices.
    #[error(
        "the devices' checkpoint was damaged: the runtime is being asked which running containers have which devices"
    )]
    Recovering,
}

impl AdmissionError {
    /// The reason for the pod's status: the kubelet's `OutOf<resource>` and `UnexpectedAdmissionError`
    /// (pkg/kubelet/lifecycle/predicate.go), or `DevicePluginNotReady`.
    pub fn reason(&self) -> PodReason {
        match self {
            Self::Refused(Refusal::Insufficient { resource, .. }) => PodReason::OutOf(resource.clone()),
            Self::Refused(Refusal::NotReady { .. } | Refusal::Unknown { .. }) | Self::Recovering => {
                PodReason::DevicePluginNotReady
            }
            Self::Plugin(_) | Self::Contended { .. } | Self::Checkpoint(_) => {
                PodReason::UnexpectedAdmissionError
            }
        }
    }
}
