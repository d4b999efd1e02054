//! The limits of the cgroups of the node and of the QoS classes (kubelet node_container_manager_linux.go,
//! qos_container_manager_linux.go).

use super::memory::Protection;
use super::unlimited::unlimited;
use super::{Node, amount, cpu, pod};
use crate::allocatable;
use crate::allocatable::Available;
use nodewarden_config::Enforce;
use nodewarden_machine::cgroup::control::{Bound, CpuShare, HugePageLimits, Limits};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;

/// The limit on huge pages of a level that does not limit them, in bytes. As in the kubelet it is not `max`
/// but a number above any capacity.
const HUGETLB_UNBOUNDED: u64 = 1 << 62;

/// The requests of all pods together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// CPU requests of Burstable pods, in thousandths.
    pub burstable_cpu_milli: u64,
    /// Memory requests of Guaranteed pods, in bytes.
    pub guaranteed_memory: u64,
    /// Memory requests of Burstable pods, in bytes.
    pub burstable_memory: u64,
    /// The part of Guaranteed pods' requests that MemoryQoS protects.
    pub guaranteed_protection: Protection,
    /// The part of Burstable pods' requests that MemoryQoS protects.
    pub burstable_protection: Protection,
}

impl Demand {
    /// The sums over these pods.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a Pod>, node: Node<'_>) -> Self {
        let mut sum = Self::default();
        for pod in pods {
            let requests = pod.requests();
            let memory = amount::memory_bytes(&requests).unwrap_or(0);
            match pod.qos {
                QosClass::Guaranteed => {
                    sum.guaranteed_memory = sum.guaranteed_memory.saturating_add(memory);
                    sum.guaranteed_protection += pod::protection(pod, node);
                }
                QosClass::Burstable => {
                    let milli = amount::cpu_milli(&requests).unwrap_or(0);
                    sum.burstable_cpu_milli = sum.burstable_cpu_milli.saturating_add(milli);
                    sum.burstable_memory = sum.burstable_memory.saturating_add(memory);
                    sum.burstable_protection += pod::protection(pod, node);
                }
                QosClass::BestEffort => {}
            }
        }
        sum
    }
}

/// The amounts that all pods together may use: the whole machine if `enforceNodeAllocatable` does not contain
/// `pods`.
fn available(node: Node<'_>) -> Available {
    if node.settings.enforce.contains(&Enforce::Pods) {
        allocatable::unreserved(node.capacity, node.settings)
    } else {
        allocatable::whole(node.capacity)
    }
}

/// Limits of kubepods: the amounts available for pods, and with MemoryQoS the sum of its children's
/// protection. The kubelet never lowers `memory.min` when pods are removed; here it always follows the
/// present pods.
pub fn kubepods(demand: &Demand, node: Node<'_>) -> Limits {
    let mut protection = demand.guaranteed_protection;
    protection += demand.burstable_protection;
    let mut limits = bounded_by(&available(node), node);
    protect(&mut limits, protection, node);
    limits.hugetlb = hugetlb_unbounded(node);
    limits
}

/// Limits of the cgroup root itself, if there are neither QoS classes nor kubepods (`cgroupsPerQOS: false`):
/// the whole machine without reservations, as in the kubelet.
pub fn cgroup_root(node: Node<'_>) -> Limits {
    let mut limits = bounded_by(&allocatable::whole(node.capacity), node);
    if node.facts.hugetlb {
        limits.hugetlb = node.capacity.hugepages.iter().map(|(size, n)| (*size, Bound::At(*n))).collect();
    }
    limits
}

fn bounded_by(available: &Available, node: Node<'_>) -> Limits {
    let facts = node.facts;
    Limits {
        cpu: Some(CpuShare::Shares(cpu::shares_from_milli(available.cpu_milli))),
        memory_max: Some(amount::limit(available.memory_bytes)),
        pids_max: facts.pids.then(|| amount::limit(available.pids)),
        // Set although it has no effect (the root has the same CPUs), so that systemd enables the cpuset
        // controller.
        cpuset_cpus: facts.cpuset.then(|| node.capacity.cpus.clone()),
        ..unlimited(node)
    }
}

/// Limits of the class of Burstable pods: the CPU share of their requests.
pub fn burstable(demand: &Demand, node: Node<'_>) -> Limits {
    let mut limits = Limits {
        cpu: Some(CpuShare::Shares(cpu::shares_from_milli(demand.burstable_cpu_milli))),
        hugetlb: hugetlb_unbounded(node),
        ..unlimited(node)
    };
    protect(&mut limits, demand.burstable_protection, node);
    if let Some(reserved) = Reserve::of(demand, node) {
        limits.memory_max = Some(Bound::At(reserved.burstable));
    }
    limits
}

/// Limits of the class of BestEffort pods: the minimum CPU share.
pub fn best_effort(demand: &Demand, node: Node<'_>) -> Limits {
    let mut limits = Limits { hugetlb: hugetlb_unbounded(node), ..unlimited(node) };
    if let Some(reserved) = Reserve::of(demand, node) {
        limits.memory_max = Some(Bound::At(reserved.best_effort));
    }
    limits
}

fn protect(limits: &mut Limits, protection: Protection, node: Node<'_>) {
    if node.memory_qos() {
        limits.memory_min = Some(protection.min);
        limits.memory_low = Some(protection.low);
    }
}

fn hugetlb_unbounded(node: Node<'_>) -> HugePageLimits {
    let sizes = node.capacity.hugepages.keys().filter(|_| node.facts.hugetlb);
    sizes.map(|size| (*size, Bound::At(HUGETLB_UNBOUNDED))).collect()
}

/// Memory that `qosReserved` leaves for the lower classes, in bytes (kubelet `setMemoryReserve`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reserve {
    burstable: u64,
    best_effort: u64,
}

impl Reserve {
    /// `None` if nothing is reserved. If more is reserved than there is, 0 is left: the negative limit that
    /// the kubelet would compute cannot be written.
    fn of(demand: &Demand, node: Node<'_>) -> Option<Self> {
        let percent = node.settings.qos_reserved_memory_percent?;
        let allocatable = allocatable::unreserved(node.capacity, node.settings).memory_bytes;
        let share =
            |bytes: u64| u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX);
        let burstable = allocatable.saturating_sub(share(demand.guaranteed_memory));
        let best_effort = burstable.saturating_sub(share(demand.burstable_memory));
        (allocatable > 0).then_some(Self { burstable, best_effort })
    }
}

/// The second try at a memory limit that the class already exceeds: its present usage, so that it cannot grow
/// further (kubelet `retrySetMemoryReserve`). v1 refuses the first try; v2 would kill processes because of
/// it.
pub fn second_try(limit: Bound, usage_bytes: u64) -> Bound {
    limit.max(Bound::At(usage_bytes))
}

#[cfg(test)]
mod tests;
