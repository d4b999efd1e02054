//! Problems of a pod's manifest.

/// A reason to refuse a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}{expected}", shown(value))]
pub struct Problem {
    /// Path of the field: `spec.containers[1].resources.limits[cpu]`.
    pub field: String,
    /// The value found; empty if the field is missing.
    pub value: String,
    /// What is expected: `must be …`, `is required`.
    pub expected: String,
}

impl Problem {
    pub(super) fn new(
        field: impl Into<String>,
        value: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), value: value.into(), expected: expected.into() }
    }
}

fn shown(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{value:?} ") }
}
