//! Where a pod is from, which decides what it may name.

/// Whether a pod may name objects of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodKind {
    /// A manifest's: it may name none (kubelet: static pods).
    Static,
    /// A pod that an API server has.
    Api,
}
