//! What the readers of a configuration found, beside the values: problems, keys, and keys without effect.

use std::fmt;

use super::Problem;
use super::shape::Shape;

/// Collected while a configuration is read. The keys come in the order in which they were read, the same for
/// every file: the schema is made from those of an empty one.
#[derive(Debug, Default)]
pub struct Reading {
    pub problems: Vec<Problem>,
    pub keys: Vec<ReadKey>,
    pub without_effect: Vec<WithoutEffect>,
}

/// A key that a reader asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadKey {
    /// Path of the key (`authentication.webhook.cacheTTL`).
    pub path: String,
    /// Its JSON type.
    pub shape: Shape,
    /// Description of valid values, as in messages; empty where the shape says it all.
    pub expected: String,
    /// Whether the file has a value.
    pub given: bool,
}

/// A key of the kubelet in the file, or a feature gate, that has no effect here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// Path of the key (`featureGates.NodeLogQuery`).
    pub key: String,
    /// Why it has none.
    pub reason: String,
}

impl fmt::Display for WithoutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.reason)
    }
}

impl Reading {
    /// Paths of the keys that the file has a value for and that were read, without those of mappings whose
    /// keys are listed themselves.
    pub fn effective(&self) -> Vec<String> {
        let given = self.keys.iter().filter(|key| key.given && key.shape != Shape::Section);
        given.map(|key| key.path.clone()).collect()
    }
}
