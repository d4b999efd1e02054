//! The limits of kubeReservedCgroup and systemReservedCgroup. The agent does not own these cgroups: they must
//! exist, and only the reserved resources are limited.

use super::{Node, amount, cpu};
use nodewarden_config::Enforce;
use nodewarden_machine::cgroup::control::{
    Bound, CgroupName, CpuShare, DriverKind, HugePageLimits, Limits, NameError,
};
use nodewarden_manifest::ResourceList;

/// The kubelet's name of process ids among reservations.
const PID: &str = "pid";

/// A cgroup of the node's daemons that is limited to what is reserved for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Reserved {
    /// The value of `enforceNodeAllocatable` that enables it.
    pub enforce: Enforce,
    /// The name as configured.
    pub cgroup: String,
    /// The limits; fields of resources that are not reserved are `None`.
    pub limits: Limits,
}

impl Reserved {
    /// Its name, as the kubelet reads the configured text: a path, under systemd a slice.
    ///
    /// # Errors
    /// When the text is not such a name.
    pub fn name(&self, driver: DriverKind) -> Result<CgroupName, NameError> {
        name(&self.cgroup, driver)
    }
}

/// The cgroup name in a configured text, as a driver reads it.
///
/// # Errors
/// When the text is not such a name.
pub fn name(cgroup: &str, driver: DriverKind) -> Result<CgroupName, NameError> {
    match driver {
        DriverKind::Cgroupfs => CgroupName::from_cgroupfs_path(cgroup),
        DriverKind::Systemd => CgroupName::from_systemd_path(cgroup),
    }
}

/// The cgroups that `enforceNodeAllocatable` limits, in its order.
pub fn reserved(node: Node<'_>) -> Vec<Reserved> {
    let settings = node.settings;
    let kube = (&settings.kube_reserved_cgroup, &settings.kube_reserved);
    let system = (&settings.system_reserved_cgroup, &settings.system_reserved);
    let mut all: Vec<Reserved> = Vec::new();
    for enforce in &settings.enforce {
        let ((cgroup, amounts), compressible) = match enforce {
            Enforce::Pods => continue,
            Enforce::SystemReserved => (system, false),
            Enforce::KubeReserved => (kube, false),
            Enforce::SystemReservedCompressible => (system, true),
            Enforce::KubeReservedCompressible => (kube, true),
        };
        // A configuration without the name was refused.
        let Some(cgroup) = cgroup.clone() else { continue };
        let limits = if compressible { compressible_limits(amounts, node) } else { limits(amounts, node) };
        all.push(Reserved { enforce: *enforce, cgroup, limits });
    }
    all
}

/// Only the CPU: it is compressible, which means that exceeding it leads to throttling and not to failure.
fn compressible_limits(reserved: &ResourceList, node: Node<'_>) -> Limits {
    let milli = amount::cpu_milli(reserved);
    Limits {
        cpu: milli.map(|milli| CpuShare::Shares(cpu::shares_from_milli(milli))),
        // As in the kubelet, so that systemd enables the cpuset controller.
        cpuset_cpus: node.facts.cpuset.then(|| node.capacity.cpus.clone()),
        ..Limits::default()
    }
}

/// All reserved resources, and no huge pages, which cannot be reserved (kubelet `enforceExistingCgroup`).
fn limits(reserved: &ResourceList, node: Node<'_>) -> Limits {
    let facts = node.facts;
    let memory = amount::memory_bytes(reserved);
    let pids = reserved.get(PID).map(|q| amount::limit(amount::whole(q.value())));
    let hugetlb = if facts.hugetlb {
        node.capacity.hugepages.keys().map(|size| (*size, Bound::At(0))).collect()
    } else {
        HugePageLimits::default()
    };
    Limits {
        memory_max: memory.map(amount::limit),
        memory_min: memory.filter(|_| node.memory_qos()),
        pids_max: pids.filter(|_| facts.pids),
        hugetlb,
        ..compressible_limits(reserved, node)
    }
}

#[cfg(test)]
mod tests;
