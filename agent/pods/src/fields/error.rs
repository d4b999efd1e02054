//! Errors of resolving a field reference.

/// Why a reference to a field of the pod has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// `fieldRef` names this field, which pods do not offer.
    #[error("unsupported fieldPath: {0}")]
    Unsupported(String),
    /// `resourceFieldRef` names this resource, which containers do not offer.
    #[error("unsupported container resource: {0}")]
    UnsupportedResource(String),
    /// `resourceFieldRef` names this container, which the pod does not have.
    #[error("container {0} not found")]
    NoContainer(String),
    /// `resourceFieldRef` has this `divisor`, which is not a quantity or not above 0.
    #[error("divisor {0:?} is not a quantity above 0")]
    Divisor(String),
    /// A reference to an object of a cluster (`configMapKeyRef`, `secretKeyRef`, …). Validation rejects it
    /// earlier.
    #[error("needs a cluster")]
    NeedsCluster,
}
