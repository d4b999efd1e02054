//! What the node's and the QoS classes' cgroups get (kubelet node_container_manager_linux.go,
//! qos_container_manager_linux.go).

use std::collections::BTreeMap;

use super::memory::Protection;
use super::unlimited::unlimited;
use super::{Node, amount, cpu, pod};
use crate::allocatable;
use crate::allocatable::Available;
use nodewarden_config::Enforce;
use nodewarden_machine::cgroup::control::{Bound, CpuShare, Limits, PageSize};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;

/// The limit on huge pages of a level that does not limit them, in bytes: the kubelet's value. It may be more
/// than there is, but is no `max`.
pub const HUGETLB_UNBOUNDED: u64 = 1 << 62;

/// What all pods together ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// CPU requests of Burstable pods, in thousandths.
    pub burstable_cpu_milli: u64,
    /// Memory requests of Guaranteed pods, in bytes.
    pub guaranteed_memory: u64,
    /// Memory requests of Burstable pods, in bytes.
    pub burstable_memory: u64,
    /// What MemoryQoS protects of Guaranteed pods.
    pub guaranteed_protection: Protection,
    /// What MemoryQoS protects of Burstable pods.
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

/// What all pods together may use: without `pods` among `enforceNodeAllocatable` the whole machine.
pub fn available(node: Node<'_>) -> Available {
    if node.settings.enforce.contains(&Enforce::Pods) {
        allocatable::unreserved(node.capacity, node.settings)
    } else {
        allocatable::whole(node.capacity)
    }
}

/// kubepods: what is available for pods; with MemoryQoS all of its children's protection. The kubelet never
/// lowers `memory.min` again when pods go: here it is always what the pods ask for now.
pub fn kubepods(demand: &Demand, node: Node<'_>) -> Limits {
    let mut protection = demand.guaranteed_protection;
    protection += demand.burstable_protection;
    let mut limits = bounded_by(&available(node), node);
    protect(&mut limits, protection, node);
    limits.hugetlb = hugetlb_unbounded(node);
    limits
}

/// The cgroup root itself, when there are neither QoS classes nor kubepods (`cgroupsPerQOS: false`): the
/// whole machine, nothing reserved, as the kubelet does it.
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
        // Told, though the root has no others, so that systemd knows that the cpuset controller is needed.
        cpuset_cpus: facts.cpuset.then(|| node.capacity.cpus.clone()),
        ..unlimited(node)
    }
}

/// The class of Burstable pods: the share of their CPU requests.
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

/// The class of BestEffort pods: the least share of the CPU.
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

fn hugetlb_unbounded(node: Node<'_>) -> BTreeMap<PageSize, Bound> {
    let sizes = node.capacity.hugepages.keys().filter(|_| node.facts.hugetlb);
    sizes.map(|size| (*size, Bound::At(HUGETLB_UNBOUNDED))).collect()
}

/// Memory that `qosReserved` leaves to the lower classes, in bytes (kubelet `setMemoryReserve`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reserve {
    burstable: u64,
    best_effort: u64,
}

impl Reserve {
    /// `None` where nothing is reserved. Where more is reserved than there is, nothing is left: a negative
    /// limit, which the kubelet would compute, cannot be written.
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

/// The second try at a memory limit that the class already exceeds: what it uses now, so that it grows no
/// further (kubelet `retrySetMemoryReserve`). v1 would refuse the first try; v2 would kill for it.
pub fn second_try(limit: Bound, usage_bytes: u64) -> Bound {
    limit.max(Bound::At(usage_bytes))
}

#[cfg(test)]
mod tests;
