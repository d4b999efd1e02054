//! A container and its resources.

use std::sync::Arc;

use k8s_openapi::api::core::v1;

use super::Resources;

/// When a container of a pod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// An init container: runs to its end before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: starts in its turn and keeps running (KEP-753).
    Sidecar,
    /// A container of `spec.containers`.
    Regular,
    /// A container of `spec.ephemeralContainers`: it is added to a pod that runs, starts once, and is not
    /// started again (KEP-277).
    Ephemeral,
}

/// A container that was added to a pod that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct EphemeralContainer {
    /// Its name and kind; it has no resources.
    pub container: Container,
    /// What it is made of, as that of any other container.
    pub spec: v1::Container,
    /// The container whose processes it sees.
    pub target: Option<String>,
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// The name in the manifest; unique in the pod.
    pub name: String,
    /// When it runs.
    pub kind: ContainerKind,
    /// After defaulting: a limit without a request is also the request. Shared with what is kept of the
    /// container that was made with them.
    pub resources: Arc<Resources>,
}
