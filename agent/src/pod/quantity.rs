//! Amounts of resources, exactly as Kubernetes writes and rounds them.

/// An exact amount (apimachinery `resource.Quantity`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {}

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity")]
pub struct QuantityError {
    pub text: String,
}
