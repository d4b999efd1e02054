//! Errors of translating a pod's manifest into CRI configurations.

use std::io;
use std::path::PathBuf;

use crate::fields::FieldError;
use crate::volume::VolumeError;
use nodewarden_model::WaitingReason;

/// A field of the manifest that cannot be honoured on this node; [`Self::reason`] is the kubelet's reason in the status.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("the pod has no container {name:?}")]
    NoContainer { name: String },
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, {} characters requested)",
        fqdn.len()
    )]
    FqdnTooLong { fqdn: String },
    #[error("dnsPolicy {policy:?} is none of ClusterFirst, ClusterFirstWithHostNet, Default, None")]
    DnsPolicy { policy: String },
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunsAsRoot { pod: String, container: String },
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageRunsAsRoot { pod: String, container: String },
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserNotNumeric { user: String, pod: String, container: String },
    #[error("localhostProfile must be set if seccompProfile type is Localhost")]
    SeccompProfileMissing,
    #[error("seccompProfile type {kind:?} is none of RuntimeDefault, Unconfined, Localhost")]
    SeccompType { kind: String },
    #[error("appArmorProfile type {kind:?} is none of RuntimeDefault, Unconfined, Localhost")]
    AppArmorType { kind: String },
    #[error("env {name}: {source}")]
    Env { name: String, source: FieldError },
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume { volume: String, container: String },
    #[error("invalid MountPropagation mode: {mode:?}")]
    Propagation { mode: String },
    #[error("missing value for {name:?} in subPathExpr {expression:?}")]
    SubPathVariable { name: String, expression: String },
    #[error("volume {volume:?} requested recursive read-only mode, but {why}")]
    RecursiveReadOnly { volume: String, why: RecursiveReadOnlyFault },
    #[error("stopSignal {signal:?} is not a signal known to runtimes")]
    Signal { signal: String },
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}: {source}")]
    SubPath { volume: String, container: String, source: Box<VolumeError> },
    #[error("{0}")]
    Volume(Box<VolumeError>),
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
}

/// Why a mount cannot be recursively read-only (kubelet `resolveRecursiveReadOnly`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecursiveReadOnlyFault {
    #[error("it is not read-only")]
    NotReadOnly,
    #[error("it is not compatible with propagation {0:?}")]
    Propagation(String),
    #[error("it is not supported by the runtime")]
    Unsupported,
}

impl SpecError {
    /// The kubelet's reason in a status: `CreateContainerConfigError` of a container, `CreatePodSandboxError` of a
    /// sandbox.
    pub fn reason(&self) -> WaitingReason {
        match self {
            Self::FqdnTooLong { .. } | Self::DnsPolicy { .. } => WaitingReason::CreatePodSandboxError,
            _ => WaitingReason::CreateContainerConfigError,
        }
    }
}
