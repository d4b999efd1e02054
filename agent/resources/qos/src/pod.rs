//! The limits of a pod's cgroup (kubelet `ResourceConfigForPod`, and what `EnsureExists` adds).

use super::memory::Protection;
use super::unlimited::unlimited;
use super::{Node, amount, cpu};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, CpuShare, Limits};
use nodewarden_manifest::QosClass;
use nodewarden_manifest::{ContainerKind, Pod, Quantity, ResourceList};

/// The limits of a pod's cgroup. Every field that this machine supports is set, even if it is unlimited.
pub fn limits(pod: &Pod, node: Node<'_>) -> Limits {
    let requests = pod.requests();
    let of_pod = pod.limits();
    let declared = Declared::by(pod);
    let mut limits = unlimited(node);
    if pod.qos != QosClass::BestEffort {
        let milli = amount::cpu_milli(&requests).unwrap_or(0);
        limits.cpu = Some(CpuShare::Shares(cpu::shares_from_milli(milli)));
    }
    if declared.cpu {
        let milli = amount::cpu_milli(&of_pod).unwrap_or(0);
        // Where a container has CPUs for itself, no level above it may limit it.
        let level = node.settings.managers.pod_level;
        let exclusive = node.lifts_quota() && pod.exclusive_cpus_of_all(level) > 0;
        limits.cpu_quota = Some(quota(if exclusive { 0 } else { milli }, node));
    }
    if declared.memory {
        limits.memory_max = Some(amount::limit(amount::memory_bytes(&of_pod).unwrap_or(0)));
    }
    if node.facts.pids {
        limits.pids_max = Some(node.settings.pod_pids_limit.map_or(Bound::Max, amount::limit));
    }
    if node.facts.hugetlb {
        let asked = amount::hugepages(&requests);
        let sizes = node.capacity.hugepages.keys();
        limits.hugetlb = sizes.map(|s| (*s, Bound::At(asked.get(s).copied().unwrap_or(0)))).collect();
    }
    if node.memory_qos() {
        let protection = protection(pod, node);
        limits.memory_min = Some(protection.min);
        limits.memory_low = Some(protection.low);
    }
    limits
}

/// The part of a pod's memory requests that MemoryQoS protects.
pub(super) fn protection(pod: &Pod, node: Node<'_>) -> Protection {
    let request = amount::memory_bytes(&pod.requests()).unwrap_or(0);
    Protection::of(node.settings.memory_reservation, pod.qos, request)
}

fn quota(limit_milli: u64, node: Node<'_>) -> CpuQuota {
    let period_us = node.period_us();
    if node.settings.cpu_cfs_quota {
        cpu::bandwidth(limit_milli, period_us)
    } else {
        CpuQuota { quota_us: Bound::Max, period_us }
    }
}

/// For which resources the pod as a whole has a limit: if one container is unlimited, so is the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Declared {
    cpu: bool,
    memory: bool,
}

impl Declared {
    fn by(pod: &Pod) -> Self {
        match pod.qos {
            QosClass::Guaranteed => Self { cpu: true, memory: true },
            QosClass::Burstable => Self { cpu: declared(pod, "cpu"), memory: declared(pod, "memory") },
            QosClass::BestEffort => Self { cpu: false, memory: false },
        }
    }
}

/// Whether the pod or all of its containers limit the resource.
///
/// A sidecar, and an init container after sidecars, counts as limited if it or any sidecar before it is
/// limited: the kubelet checks the sum of the limits so far (component-helpers `AggregateContainerLimits`).
fn declared(pod: &Pod, resource: &str) -> bool {
    let set = |list: &ResourceList| list.get(resource).is_some_and(|q| *q != Quantity::default());
    if pod.resources.as_ref().is_some_and(|r| set(&r.limits)) {
        return true;
    }
    let mut sidecars = false;
    let init = pod.init_containers.iter().all(|c| {
        let set = set(&c.resources.limits);
        sidecars |= set && c.kind == ContainerKind::Sidecar;
        set || sidecars
    });
    init && pod.containers.iter().all(|c| set(&c.resources.limits))
}

#[cfg(test)]
mod tests;
