//! A container and its resources.

use super::Resources;

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: starts in its turn and stays (KEP-753).
    Sidecar,
    /// A container of `spec.containers`.
    Regular,
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    pub name: String,
    pub kind: ContainerKind,
    /// After defaulting: a limit without a request is also the request.
    pub resources: Resources,
}
