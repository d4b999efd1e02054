//! Names of resources and their kinds in Kubernetes (pkg/apis/core/v1/helper, component-helpers/resource).

use super::Quantity;
use super::name_forms::{is_label_value, is_qualified_name};

/// CPU time, in CPUs.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Local storage, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Prefix of huge page resources, followed by the page size: `hugepages-2Mi`.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";
/// Prefix of requests in resource quotas.
const REQUESTS_PREFIX: &str = "requests.";

/// Whether it is a huge page resource.
pub fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES_PREFIX)
}

/// The resource of huge pages of so many bytes, like `hugepages-2Mi` (`HugePageResourceName`).
pub fn hugepages(bytes: u64) -> String {
    format!("{HUGEPAGES_PREFIX}{}", Quantity::from_bytes(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// The size of the pages of a huge page resource; `None` for other resources, and for a size that is none.
pub fn page_size(name: &str) -> Option<Quantity> {
    Quantity::parse(name.strip_prefix(HUGEPAGES_PREFIX)?).ok()
}

/// Whether amounts of the resource are bytes.
pub fn is_bytes(name: &str) -> bool {
    matches!(name, MEMORY | EPHEMERAL_STORAGE) || is_hugepages(name)
}

/// Whether the resource is defined by Kubernetes: without a domain, or in `kubernetes.io`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether it is an extended resource, as device plugins offer them (`IsExtendedResourceName`): outside
/// `kubernetes.io`, without the prefix of quotas, and still a valid name with that prefix.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS_PREFIX)
        && is_qualified_name(&format!("{REQUESTS_PREFIX}{name}"))
}

/// Whether it can be a label of an object (apimachinery's `IsQualifiedName` and `IsValidLabelValue`).
pub fn is_label(key: &str, value: &str) -> bool {
    is_qualified_name(key) && is_label_value(value)
}

/// Whether limits may be above requests or absent.
pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Whether it is allowed in `spec.resources` of a pod (KEP-2837).
pub(super) fn is_pod_level(name: &str) -> bool {
    is_compute(name) || is_hugepages(name)
}

/// Whether it determines the QoS class.
pub(super) fn is_compute(name: &str) -> bool {
    name == CPU || name == MEMORY
}
