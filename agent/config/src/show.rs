//! A YAML mapping in the order in which its keys are put.

use serde_yaml_ng::{Mapping, Value};

/// One entry of a mapping.
pub(crate) fn pair(key: &str, value: impl Into<Value>) -> (Value, Value) {
    (key.into(), value.into())
}

/// A mapping that keeps the order of insertion.
#[derive(Default)]
pub(crate) struct Map(pub(crate) Mapping);

impl Map {
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.into(), value.into());
    }

    pub(crate) fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }
}
