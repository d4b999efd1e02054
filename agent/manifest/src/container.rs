//! A container and its resources.

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
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// The name in the manifest; unique in the pod.
    pub name: String,
    /// When it runs.
    pub kind: ContainerKind,
    /// After defaulting: a limit without a request is also the request.
    pub resources: Resources,
}
