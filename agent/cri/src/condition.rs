//! Conditions that a runtime reports about itself.

use std::fmt;

use nodewarden_proto::runtime::v1 as cri;

/// A condition of the runtime: `RuntimeReady`, `NetworkReady` or one of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Name of the condition (CRI's `type`).
    pub kind: String,
    /// Whether it is met (CRI's `status`).
    pub holds: bool,
    /// The reason in CamelCase.
    pub reason: String,
    /// The reason as text.
    pub message: String,
}

impl From<cri::RuntimeCondition> for Condition {
    fn from(c: cri::RuntimeCondition) -> Self {
        Self { kind: c.r#type, holds: c.status, reason: c.reason, message: c.message }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.holds)?;
        for (before, text) in [(" ", &self.reason), (": ", &self.message)] {
            if !text.is_empty() {
                write!(f, "{before}{text}")?;
            }
        }
        Ok(())
    }
}
