//! Why a field has no value.

/// Why a field of the pod has no value for a variable or a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    #[error("unsupported fieldPath: {0}")]
    Unsupported(String),
    #[error("unsupported container resource: {0}")]
    UnsupportedResource(String),
    #[error("container {0} not found")]
    NoContainer(String),
    #[error("divisor {0:?} is not a quantity above 0")]
    Divisor(String),
    /// What only a cluster has (`configMapKeyRef`, `secretKeyRef`, …); validation refuses it before.
    #[error("needs a cluster")]
    NeedsCluster,
}
