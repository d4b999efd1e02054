//! Amounts of a resource list as integers in the units of cgroups.

use std::collections::BTreeMap;

use nodewarden_machine::cgroup::control::{Bound, PageSize};
use nodewarden_manifest::{ResourceList, names};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

/// Thousandths of a CPU; `None` if the list does not contain it. An amount below zero (which no valid pod
/// has) counts as zero, here and below.
pub(crate) fn cpu_milli(list: &ResourceList) -> Option<u64> {
    list.get(CPU).map(|q| whole(q.milli_value()))
}

/// Bytes of memory; `None` if the list does not contain it.
pub(crate) fn memory_bytes(list: &ResourceList) -> Option<u64> {
    list.get(MEMORY).map(|q| whole(q.value()))
}

/// Bytes of each size of huge pages that the list contains.
pub(crate) fn hugepages(list: &ResourceList) -> BTreeMap<PageSize, u64> {
    list.iter().filter_map(|(name, q)| Some((page_size(name)?, whole(q.value())))).collect()
}

/// The size in `hugepages-<size>`; `None` for every other resource.
pub(crate) fn page_size(resource: &str) -> Option<PageSize> {
    Some(PageSize(whole(names::page_size(resource)?.value())))
}

/// An upper limit as in the kubelet: zero means no limit (the kubelet does not write it, and the kernel's
/// default is no limit).
pub(crate) fn limit(amount: u64) -> Bound {
    if amount == 0 { Bound::Max } else { Bound::At(amount) }
}

/// The amount as an unsigned number; 0 if it is below zero.
pub(crate) fn whole(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
