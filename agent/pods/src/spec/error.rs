//! Errors of translating a pod's manifest into CRI configurations.

use std::io;
use std::path::PathBuf;

use crate::fields::FieldError;
use crate::volume::VolumeError;
use nodewarden_manifest::TooLong;
use nodewarden_model::WaitingReason;

/// A field of the manifest that cannot be honoured on this node; [`Self::reason`] is the kubelet's reason in
/// the status.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The manifest has no container of this name.
    #[error("the pod has no container {name:?}")]
    NoContainer {
        /// The name that was looked for.
        name: String,
    },
    /// With `setHostnameAsFQDN`, the name is longer than the 64 bytes that the kernel allows for a host name.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, {} characters requested)",
        fqdn.len()
    )]
    FqdnTooLong {
        /// The host name of the pod followed by its domain.
        fqdn: String,
    },
    /// `dnsPolicy` has a value that no kubelet knows.
    #[error("dnsPolicy {policy:?} is none of ClusterFirst, ClusterFirstWithHostNet, Default, None")]
    DnsPolicy {
        /// The value in the manifest.
        policy: String,
    },
    /// `runAsNonRoot` is true and `runAsUser` is 0.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunsAsRoot {
        /// The pod as the kubelet writes it: `<name>_<namespace>(<uid>)`.
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot` is true, there is no `runAsUser`, and the image's user is 0.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageRunsAsRoot {
        /// The pod, written as in [`Self::RunsAsRoot`].
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// `runAsNonRoot` is true, there is no `runAsUser`, and the image's user is a name whose uid is not
    /// known.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserNotNumeric {
        /// The user in the image's configuration.
        user: String,
        /// The pod, written as in [`Self::RunsAsRoot`].
        pod: String,
        /// Name of the container.
        container: String,
    },
    /// A `seccompProfile` of type Localhost names no file.
    #[error("localhostProfile must be set if seccompProfile type is Localhost")]
    SeccompProfileMissing,
    /// `seccompProfile.type` has a value that no kubelet knows.
    #[error("seccompProfile type {kind:?} is none of RuntimeDefault, Unconfined, Localhost")]
    SeccompType {
        /// The value in the manifest.
        kind: String,
    },
    /// `appArmorProfile.type` has a value that no kubelet knows.
    #[error("appArmorProfile type {kind:?} is none of RuntimeDefault, Unconfined, Localhost")]
    AppArmorType {
        /// The value in the manifest.
        kind: String,
    },
    /// The `valueFrom` of an environment variable has no value here.
    #[error("env {name}: {source}")]
    Env {
        /// Name of the variable.
        name: String,
        /// Why its reference has no value.
        source: FieldError,
    },
    /// An object that the environment names, in the kubelet's words.
    #[error(transparent)]
    Object(#[from] crate::objects::ObjectError),
    /// An object that the environment names does not have a key, in the kubelet's words.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// The pod's namespace.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// The environment variables are too long together.
    #[error("env {name}: the variables have {source}")]
    EnvTooLong {
        /// The variable with which they become too long.
        name: String,
        /// What they may have.
        source: TooLong,
    },
    /// The command or its arguments are too long, together with the environment variables.
    #[error("{field}: together with the variables it has {source}")]
    CommandTooLong {
        /// `command` or `args`.
        field: &'static str,
        /// What they may have.
        source: TooLong,
    },
    /// A `subPathExpr` is longer than any path.
    #[error("subPathExpr {expression:?}: {source}")]
    SubPathTooLong {
        /// The whole `subPathExpr`.
        expression: String,
        /// What it may have.
        source: TooLong,
    },
    /// A `volumeMounts` entry names a volume that the pod does not have.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume {
        /// The name in `volumeMounts`.
        volume: String,
        /// Name of the container with that mount.
        container: String,
    },
    /// `mountPropagation` has a value that no kubelet knows.
    #[error("invalid MountPropagation mode: {mode:?}")]
    Propagation {
        /// The value in the manifest.
        mode: String,
    },
    /// `subPathExpr` refers to a variable that the container does not have.
    #[error("missing value for {name:?} in subPathExpr {expression:?}")]
    SubPathVariable {
        /// Name of the missing variable.
        name: String,
        /// The whole `subPathExpr`.
        expression: String,
    },
    /// `recursiveReadOnly: Enabled` cannot be honoured.
    #[error("volume {volume:?} requested recursive read-only mode, but {why}")]
    RecursiveReadOnly {
        /// Name of the mounted volume.
        volume: String,
        /// The condition that is not met.
        why: RecursiveReadOnlyFault,
    },
    /// `lifecycle.stopSignal` is not a signal of CRI.
    #[error("stopSignal {signal:?} is not a signal known to runtimes")]
    Signal {
        /// The value in the manifest.
        signal: String,
    },
    /// The directory or file of a `subPath` could not be created or mounted.
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}: {source}")]
    SubPath {
        /// Name of the volume that the path is in.
        volume: String,
        /// Name of the container with the mount.
        container: String,
        /// What failed.
        source: Box<VolumeError>,
    },
    /// The files of a volume could not be written.
    #[error("{0}")]
    Volume(Box<VolumeError>),
    /// A system call on one of the pod's own files failed: its log directory, hosts file or termination
    /// message.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// What was done, as text in the message (`create`, `write`).
        call: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Why a mount cannot be recursively read-only (kubelet `resolveRecursiveReadOnly`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecursiveReadOnlyFault {
    /// The mount does not set `readOnly`.
    #[error("it is not read-only")]
    NotReadOnly,
    /// The mount has this `mountPropagation`; only None is allowed.
    #[error("it is not compatible with propagation {0:?}")]
    Propagation(String),
    /// The runtime's handler does not have the feature `recursive_read_only_mounts`.
    #[error("it is not supported by the runtime")]
    Unsupported,
}

impl SpecError {
    /// The kubelet's reason in a status: `CreateContainerConfigError` of a container, `CreatePodSandboxError`
    /// of a sandbox.
    pub fn reason(&self) -> WaitingReason {
        match self {
            Self::FqdnTooLong { .. } | Self::DnsPolicy { .. } => WaitingReason::CreatePodSandboxError,
            _ => WaitingReason::CreateContainerConfigError,
        }
    }
}
