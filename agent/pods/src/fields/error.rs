//! Errors of resolving a field reference.

/// Why a reference to a field of the pod has no value.
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
    /// A reference to an object of a cluster (`configMapKeyRef`, `secretKeyRef`, …). Validation rejects it earlier.
    #[error("needs a cluster")]
    NeedsCluster,
}
