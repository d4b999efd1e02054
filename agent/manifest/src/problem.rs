//! What is wrong with a pod.

/// One thing that keeps a pod from being taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}{expected}", shown(value))]
pub struct Problem {
    /// Where: `spec.containers[1].resources.limits[cpu]`.
    pub field: String,
    /// What is there; empty where nothing is.
    pub value: String,
    /// What should be: `must be …`, `is required`.
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
