//! Requests and limits.

use std::collections::BTreeMap;

use super::Quantity;

/// Amounts by resource name (`cpu`, `memory`, `hugepages-2Mi`, `example.com/gpu`).
pub type ResourceList = BTreeMap<String, Quantity>;

/// What a container or a pod asks for and may use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resources {
    pub requests: ResourceList,
    pub limits: ResourceList,
}
