//! Names of resources, as Kubernetes tells them apart (pkg/apis/core/v1/helper, component-helpers/resource).

use super::validate::is_qualified_name;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// A size of pages follows: `hugepages-2Mi`.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";
/// A quota's names of what is requested.
const REQUESTS_PREFIX: &str = "requests.";

pub fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES_PREFIX)
}

/// Kubernetes' own: without a domain, or one of `kubernetes.io`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// What device plugins may be for (`IsExtendedResourceName`): outside `kubernetes.io`, not named like a quota's request,
/// and a name still with a quota's `requests.` before it.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS_PREFIX)
        && is_qualified_name(&format!("{REQUESTS_PREFIX}{name}"))
}

/// Whether limits may be above requests, and absent.
pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Whether `spec.resources` may name it (KEP-2837).
pub(super) fn is_pod_level(name: &str) -> bool {
    is_compute(name) || is_hugepages(name)
}

/// What the QoS class is made of.
pub(super) fn is_compute(name: &str) -> bool {
    name == CPU || name == MEMORY
}
