//! Names of resources, as Kubernetes tells them apart (pkg/apis/core/v1/helper, component-helpers/resource).

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// A size of pages follows: `hugepages-2Mi`.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

pub fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES_PREFIX)
}

/// Kubernetes' own: without a domain, or one of `kubernetes.io`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
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
