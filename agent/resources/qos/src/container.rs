//! The resources that are passed to the runtime for a container and a sandbox, and the content of their
//! cgroup files afterwards (kubelet kuberuntime_container_linux.go, kuberuntime_sandbox_linux.go).

use std::collections::BTreeMap;

use super::memory::{self, Protection};
use super::unlimited::unlimited;
use super::{Node, WeightFormula, amount, cpu, oom};
use crate::allocatable;
use nodewarden_config::{MemoryReservation, SwapBehavior};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, CpuShare, HugePageLimits, Limits, PageSize};
use nodewarden_manifest::QosClass;
use nodewarden_manifest::{Container, Pod, ResourceList, Resources};

const MEMORY_MIN: &str = "memory.min";
const MEMORY_LOW: &str = "memory.low";
const MEMORY_HIGH: &str = "memory.high";
const SWAP_MAX: &str = "memory.swap.max";
const OOM_GROUP: &str = "memory.oom.group";

/// CRI `LinuxContainerResources`. A field that is `None` or empty is not set: zero in the message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerParameters {
    /// CFS period in microseconds; `None` with `cpuCFSQuota: false`.
    pub cpu_period: Option<u64>,
    /// CFS quota in microseconds per period; `None` without a limit.
    pub cpu_quota: Option<u64>,
    /// `cpu.shares` of v1, from which a v2 runtime computes `cpu.weight`.
    pub cpu_shares: u64,
    /// Memory limit in bytes; `None` without one.
    pub memory_limit_in_bytes: Option<u64>,
    /// v1: limit of memory and swap together, in bytes; `None` without one, and on v2.
    pub memory_swap_limit_in_bytes: Option<u64>,
    /// `None` for a sandbox: the runtime sets its own value (-998).
    pub oom_score_adj: Option<i32>,
    /// Bytes for every size that the kernel knows, 0 for none; empty for a sandbox.
    pub hugepage_limits: BTreeMap<PageSize, u64>,
    /// v2: files, and the values that are written to them.
    pub unified: BTreeMap<String, String>,
}

/// The resources that are passed to the runtime for one of the pod's containers.
pub fn parameters(pod: &Pod, container: &Container, node: Node<'_>) -> ContainerParameters {
    let own = &container.resources;
    let of_pod = pod.resources.as_ref().map(|r| &r.limits);
    // A container without a limit has its pod's (KEP-2837).
    let effective = |amount: fn(&ResourceList) -> Option<u64>| {
        let nonzero = |n: &u64| *n > 0;
        amount(&own.limits).filter(nonzero).or_else(|| of_pod.and_then(amount).filter(nonzero))
    };
    let demand = CpuAndMemory {
        cpu_request: amount::cpu_milli(&own.requests),
        cpu_limit: effective(amount::cpu_milli).unwrap_or(0),
        memory_limit: effective(amount::memory_bytes).unwrap_or(0),
    };
    let mut given = demand.parameters(node);
    if node.lifts_quota() && pod.exclusive_cpus(container, node.settings.managers.pod_level) > 0 {
        given.cpu_quota = None;
    }
    given.oom_score_adj = Some(oom::writable(oom::container(pod, container, node.capacity.memory_bytes)));
    given.hugepage_limits = hugepage_limits(&own.limits, node);
    set_swap(&mut given, pod, container, node);
    if node.memory_qos() {
        set_memory_qos(&mut given, pod.qos, own, node);
    }
    given
}

/// The resources that are passed to the runtime for the pod's sandbox: those of the pod, for runtimes that
/// size a virtual machine by them. Other runtimes set no limit for the pause container.
pub fn sandbox(pod: &Pod, node: Node<'_>) -> ContainerParameters {
    let bare = Pod { overhead: ResourceList::new(), ..pod.clone() };
    let (requests, limits) = (bare.requests(), bare.limits());
    CpuAndMemory {
        cpu_request: amount::cpu_milli(&requests),
        cpu_limit: amount::cpu_milli(&limits).unwrap_or(0),
        memory_limit: amount::memory_bytes(&limits).unwrap_or(0),
    }
    .parameters(node)
}

/// The overhead of the pod that is passed to the runtime; `None` for a pod without one.
pub fn overhead(pod: &Pod, node: Node<'_>) -> Option<ContainerParameters> {
    let milli = amount::cpu_milli(&pod.overhead).unwrap_or(0);
    let demand = CpuAndMemory {
        cpu_request: Some(milli),
        cpu_limit: milli,
        memory_limit: amount::memory_bytes(&pod.overhead).unwrap_or(0),
    };
    (!pod.overhead.is_empty()).then(|| demand.parameters(node))
}

/// What containers and sandboxes have in common (kubelet `calculateLinuxResources`).
struct CpuAndMemory {
    /// Millicores; `None` without a request.
    cpu_request: Option<u64>,
    /// Millicores; 0 without a limit.
    cpu_limit: u64,
    /// Bytes; 0 without a limit.
    memory_limit: u64,
}

impl CpuAndMemory {
    fn parameters(&self, node: Node<'_>) -> ContainerParameters {
        let settings = node.settings;
        let (cpu_period, cpu_quota) = if settings.cpu_cfs_quota {
            let period = node.period_us();
            (Some(period), cpu::quota_from_milli(self.cpu_limit, period))
        } else {
            (None, None)
        };
        let mut unified = BTreeMap::new();
        // On v1 the kernel cannot kill a group: `singleProcessOOMKill` is true whatever is configured.
        if node.facts.v2() && !settings.single_process_oom_kill.unwrap_or(false) {
            unified.insert(OOM_GROUP.to_owned(), String::from("1"));
        }
        ContainerParameters {
            cpu_period,
            cpu_quota,
            cpu_shares: cpu::shares_from_milli(self.cpu_request.unwrap_or(self.cpu_limit)),
            memory_limit_in_bytes: (self.memory_limit > 0).then_some(self.memory_limit),
            unified,
            ..ContainerParameters::default()
        }
    }
}

fn hugepage_limits(limits: &ResourceList, node: Node<'_>) -> BTreeMap<PageSize, u64> {
    let asked = amount::hugepages(limits);
    node.capacity.hugepages.keys().map(|size| (*size, asked.get(size).copied().unwrap_or(0))).collect()
}

/// Limits swap (KEP-2400).
fn set_swap(given: &mut ContainerParameters, pod: &Pod, container: &Container, node: Node<'_>) {
    if !node.facts.swap {
        return;
    }
    if node.facts.v2() {
        given.unified.insert(SWAP_MAX.to_owned(), swap_bytes(pod, container, node).to_string());
    } else {
        // The limit of both together is that of memory alone: no swap. Without a memory limit v1 has no value
        // that means this.
        given.memory_swap_limit_in_bytes = given.memory_limit_in_bytes;
    }
}

/// Bytes of swap that a container may use. A Burstable pod's container gets the same fraction of the
/// machine's swap that its request is of the machine's memory, unless the pod is critical, or the container
/// requests no memory or exactly its limit.
fn swap_bytes(pod: &Pod, container: &Container, node: Node<'_>) -> u64 {
    let capacity = node.capacity;
    let request = amount::memory_bytes(&container.resources.requests).unwrap_or(0);
    let limit = amount::memory_bytes(&container.resources.limits).unwrap_or(0);
    let limited = node.settings.swap_behavior == SwapBehavior::LimitedSwap
        && pod.qos == QosClass::Burstable
        && !pod.is_critical()
        && request != limit;
    if !limited || request > capacity.memory_bytes || capacity.memory_bytes == 0 {
        return 0;
    }
    // In the kubelet's order of operations, so that rounding is the same.
    (request as f64 / capacity.memory_bytes as f64 * capacity.swap_bytes as f64) as u64
}

fn set_memory_qos(given: &mut ContainerParameters, class: QosClass, own: &Resources, node: Node<'_>) {
    let request = amount::memory_bytes(&own.requests).unwrap_or(0);
    let limit = amount::memory_bytes(&own.limits).unwrap_or(0);
    let policy = node.settings.memory_reservation;
    let protection = Protection::of(policy, class, request);
    let mut write = |file: &str, bytes: u64| given.unified.insert(file.to_owned(), bytes.to_string());
    // The policy may have been another one when the container was started, so zeros are set too. Kubernetes
    // 1.35 has no policy and sets no zeros.
    let zeros = policy != MemoryReservation::Unset;
    if protection.min > 0 || zeros {
        write(MEMORY_MIN, protection.min);
    }
    if protection.low > 0 || zeros {
        write(MEMORY_LOW, protection.low);
    }
    let allocatable = allocatable::unreserved(node.capacity, node.settings).memory_bytes;
    if let Some(high) = memory::high(request, limit, allocatable, node) {
        write(MEMORY_HIGH, high);
    }
}

/// The content of a container's files after its runtime has applied its resources.
///
/// Fields that the runtime decides are `None`: the CPU weight on v2 while its `formula` is unknown (a weight
/// that [`super::weight::weight_is_true`] accepts is correct in any case), `pids.max` (under systemd its
/// DefaultTasksMax), huge pages (containerd does not set them unless configured otherwise), CPUs.
pub fn container_limits(
    given: &ContainerParameters,
    formula: Option<WeightFormula>,
    node: Node<'_>,
) -> Limits {
    let facts = node.facts;
    let read = |file: &str| given.unified.get(file).and_then(|text| text.parse::<u64>().ok());
    let base = unlimited(node);
    let at = |bytes: Option<u64>, otherwise: Option<Bound>| bytes.map(Bound::At).or(otherwise);
    let shares = CpuShare::Shares(given.cpu_shares);
    let weight = |f: WeightFormula| CpuShare::Weight(f.weight(given.cpu_shares));
    let limits = Limits {
        cpu: if facts.v2() { formula.map(weight) } else { Some(shares) },
        cpu_quota: Some(CpuQuota {
            quota_us: given.cpu_quota.map_or(Bound::Max, Bound::At),
            period_us: given.cpu_period.unwrap_or(cpu::DEFAULT_PERIOD_US),
        }),
        memory_max: at(given.memory_limit_in_bytes, base.memory_max),
        memory_min: read(MEMORY_MIN).or(base.memory_min),
        memory_low: read(MEMORY_LOW).or(base.memory_low),
        memory_high: at(read(MEMORY_HIGH), base.memory_high),
        swap_max: at(read(SWAP_MAX), base.swap_max),
        memsw_max: base.memsw_max.map(|max| given.memory_swap_limit_in_bytes.map_or(max, Bound::At)),
        oom_group: base.oom_group.map(|_| given.unified.get(OOM_GROUP).is_some_and(|v| v == "1")),
        ..base
    };
    runtimes_own(limits)
}

/// The content of a sandbox's files: runtimes that do not create a virtual machine for it set no limit.
pub fn sandbox_limits(node: Node<'_>) -> Limits {
    let base = unlimited(node);
    let least = if node.facts.v2() {
        CpuShare::Weight(super::weight::MIN_WEIGHT)
    } else {
        CpuShare::Shares(cpu::MIN_SHARES)
    };
    runtimes_own(Limits { cpu: Some(least), ..base })
}

/// Removes the fields that the runtime decides.
fn runtimes_own(limits: Limits) -> Limits {
    Limits { pids_max: None, cpuset_cpus: None, hugetlb: HugePageLimits::default(), ..limits }
}

#[cfg(test)]
mod tests;
