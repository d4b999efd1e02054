//! Requests and limits.

use super::{ByName, Quantity};

/// Amounts by resource name (`cpu`, `memory`, `hugepages-2Mi`, `example.com/gpu`).
pub type ResourceList = ByName<Quantity>;

/// Requests and limits of a container or pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resources {
    /// What is reserved for it, by resource.
    pub requests: ResourceList,
    /// What it may use at most, by resource.
    pub limits: ResourceList,
}

impl Resources {
    /// Whether it has neither requests nor limits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }
}

/// Adds the amounts of `more` by name.
pub(super) fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        match list.get_mut(name) {
            Some(sum) => *sum += quantity,
            None => {
                list.insert(name.clone(), quantity.clone());
            }
        }
    }
}

/// Raises the amounts of `list` to those of `other` by name.
pub(super) fn raise(list: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        if list.get(name).is_none_or(|own| quantity > own) {
            list.insert(name.clone(), quantity.clone());
        }
    }
}
