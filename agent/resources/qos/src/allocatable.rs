//! The resources that are left for pods: capacity minus reservations (kubelet
//! node_container_manager_linux.go, pkg/kubelet/nodestatus/setters.go).

use std::collections::BTreeMap;

use thiserror::Error;

use nodewarden_config::{NodeSettings, Threshold};
use nodewarden_machine::cgroup::control::PageSize;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::{Quantity, ResourceList};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The kubelet's name of process ids among reservations.
const PID: &str = "pid";

/// Hard eviction thresholds that reserve something, and the resource.
const EVICTION: [(&str, &str); 2] = [("memory.available", MEMORY), ("nodefs.available", EPHEMERAL_STORAGE)];

/// Amounts that pods can use together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Available {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Bytes.
    pub memory_bytes: u64,
    /// Processes.
    pub pids: u64,
    /// Bytes of each size.
    pub hugepages: BTreeMap<PageSize, u64>,
    /// Bytes; `None` if the capacity is unknown.
    pub ephemeral_storage_bytes: Option<u64>,
}

/// More is set aside of a resource than there is (kubelet `validateNodeAllocatable`).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{resource}: kubeReserved, systemReserved and evictionHard set {reserved} aside, but the machine has {capacity}"
)]
/// When the reservations of a resource exceed its capacity (kubelet `validateNodeAllocatable`).
pub struct ReservedTooMuch {
    /// The resource's name in the configuration.
    pub resource: &'static str,
    /// The sum of all reservations.
    pub reserved: Quantity,
    /// What the machine has.
    pub capacity: Quantity,
}

/// The whole capacity: the limits of kubepods if `enforceNodeAllocatable` does not contain `pods`.
pub fn whole(capacity: &Capacity) -> Available {
    Available {
        cpu_milli: capacity.cpu_milli,
        memory_bytes: capacity.memory_bytes,
        pids: capacity.pids,
        hugepages: capacity.hugepages.clone(),
        ephemeral_storage_bytes: capacity.ephemeral_storage_bytes,
    }
}

/// Capacity minus kubeReserved and systemReserved, never below 0: the limits of kubepods, and the input of
/// MemoryQoS and qosReserved (kubelet `GetNodeAllocatableAbsolute`). Eviction thresholds are not subtracted:
/// pods may reach them, and are then evicted.
pub(crate) fn unreserved(capacity: &Capacity, settings: &NodeSettings) -> Available {
    less(capacity, |resource| reserved(settings, resource))
}

/// The amounts that pods can request (the node status's `allocatable`): capacity minus kubeReserved,
/// systemReserved and the hard eviction thresholds, and for memory also minus preallocated huge pages; never
/// below 0.
pub fn allocatable(capacity: &Capacity, settings: &NodeSettings) -> Available {
    let mut left =
        less(capacity, |resource| reserved(settings, resource) + evicted(capacity, settings, resource));
    let huge: u64 = capacity.hugepages.values().sum();
    left.memory_bytes = left.memory_bytes.saturating_sub(huge);
    left
}

/// What is set aside of CPU and memory: kubeReserved, systemReserved and the hard eviction threshold (kubelet
/// `GetNodeAllocatableReservation`).
pub fn reservation(capacity: &Capacity, settings: &NodeSettings) -> ResourceList {
    let of = |resource: &str| reserved(settings, resource) + evicted(capacity, settings, resource);
    [CPU, MEMORY].map(|resource| (resource.to_owned(), of(resource))).into()
}

/// Checks that reservations do not exceed the capacity.
///
/// # Errors
/// When they do, with every such resource.
pub fn check(capacity: &Capacity, settings: &NodeSettings) -> Result<(), Vec<ReservedTooMuch>> {
    let too_much: Vec<_> = [CPU, MEMORY, EPHEMERAL_STORAGE, PID]
        .into_iter()
        .filter_map(|resource| {
            let capacity_of = total(capacity, resource)?;
            let reserved = reserved(settings, resource) + evicted(capacity, settings, resource);
            (reserved > capacity_of).then_some(ReservedTooMuch { resource, reserved, capacity: capacity_of })
        })
        .collect();
    if too_much.is_empty() { Ok(()) } else { Err(too_much) }
}

fn less(capacity: &Capacity, taken: impl Fn(&str) -> Quantity) -> Available {
    let left = |resource| {
        let all = total(capacity, resource)?;
        Some((all - taken(resource)).max(Quantity::default()))
    };
    let units = |resource| left(resource).and_then(|q| u64::try_from(q.value()).ok());
    Available {
        cpu_milli: left(CPU).and_then(|q| u64::try_from(q.milli_value()).ok()).unwrap_or(0),
        memory_bytes: units(MEMORY).unwrap_or(0),
        pids: units(PID).unwrap_or(0),
        // Huge pages cannot be reserved.
        hugepages: capacity.hugepages.clone(),
        ephemeral_storage_bytes: units(EPHEMERAL_STORAGE),
    }
}

fn total(capacity: &Capacity, resource: &str) -> Option<Quantity> {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    match resource {
        CPU => Some(Quantity::from_milli(signed(capacity.cpu_milli))),
        MEMORY => Some(Quantity::from_bytes(signed(capacity.memory_bytes))),
        EPHEMERAL_STORAGE => capacity.ephemeral_storage_bytes.map(|n| Quantity::from_bytes(signed(n))),
        PID => Some(Quantity::from_whole(signed(capacity.pids))),
        _ => None,
    }
}

fn reserved(settings: &NodeSettings, resource: &str) -> Quantity {
    let of = |list: &ResourceList| list.get(resource).cloned().unwrap_or_default();
    of(&settings.kube_reserved) + of(&settings.system_reserved)
}

/// The amount of a resource that the hard eviction thresholds keep free (kubelet `hardEvictionReservation`).
fn evicted(capacity: &Capacity, settings: &NodeSettings, resource: &str) -> Quantity {
    let threshold = EVICTION
        .iter()
        .find(|(_, of)| *of == resource)
        .and_then(|(signal, _)| settings.eviction_hard.get(*signal));
    match threshold {
        None => Quantity::default(),
        Some(Threshold::Quantity(q)) => q.clone(),
        // The kubelet keeps a percentage as a 32-bit float.
        Some(Threshold::Fraction(fraction)) => {
            let all = total(capacity, resource).map_or(0, |q| q.value());
            Quantity::from_bytes((all as f64 * f64::from(*fraction as f32)) as i64)
        }
    }
}

#[cfg(test)]
mod tests;
