//! The capabilities of the machine's cgroups, and the inputs from which the node's limits are computed.

use nodewarden_config::NodeSettings;
use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_machine::node::Capacity;

/// The limits that this machine's cgroups support. Unsupported ones are `None` in every
/// [`nodewarden_machine::cgroup::control::Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HierarchyFacts {
    /// Version of the hierarchy that has the memory controller: a hybrid machine is v1.
    pub version: Version,
    /// Whether the pids controller is available.
    pub pids: bool,
    /// Whether the cpuset controller is available.
    pub cpuset: bool,
    /// Whether the hugetlb controller is available.
    pub hugetlb: bool,
    /// Whether swap is accounted: `memory.swap.max` or `memory.memsw.limit_in_bytes` exists.
    pub swap: bool,
    /// Whether v2 `cpu.idle` exists (Linux 5.15).
    pub cpu_idle: bool,
    /// Whether v2 `memory.oom.group` exists (Linux 4.19).
    pub oom_group: bool,
    /// Bytes of an ordinary page: the kernel rounds memory limits down to a multiple of it.
    pub page_size: u64,
}

/// Files that some kernels lack although they have the controllers, so that their existence has to be
/// checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalFiles {
    /// Whether `memory.swap.max` or `memory.memsw.limit_in_bytes` exists.
    pub swap: bool,
    /// Whether `cpu.idle` exists.
    pub cpu_idle: bool,
    /// Whether `memory.oom.group` exists.
    pub oom_group: bool,
}

impl HierarchyFacts {
    /// The facts of a machine with this layout.
    pub fn of(layout: &Layout, files: OptionalFiles, page_size: u64) -> Self {
        let has = |controller| layout.hierarchy(controller).is_some();
        Self {
            // A layout always has the memory controller.
            version: layout.hierarchy(Controller::Memory).map_or(Version::V2, |h| h.version),
            pids: has(Controller::Pids),
            cpuset: has(Controller::Cpuset),
            hugetlb: has(Controller::Hugetlb),
            swap: files.swap,
            cpu_idle: files.cpu_idle,
            oom_group: files.oom_group,
            page_size,
        }
    }

    /// Whether the memory controller is on v2.
    pub fn v2(&self) -> bool {
        self.version == Version::V2
    }
}

/// The node that limits are computed for.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// The configured settings.
    pub settings: &'a NodeSettings,
    /// The machine's resources.
    pub capacity: &'a Capacity,
    /// What its cgroups support.
    pub facts: &'a HierarchyFacts,
}

impl Node<'_> {
    /// The CFS period in force, in microseconds.
    pub fn period_us(&self) -> u64 {
        super::cpu::period_us(self.settings.cpu_cfs_quota_period)
    }

    /// Whether containers with CPUs for themselves have no CPU quota (kubelet: feature gate
    /// DisableCPUQuotaWithExclusiveCPUs).
    pub fn lifts_quota(&self) -> bool {
        let managers = &self.settings.managers;
        managers.has_static_cpus() && managers.no_quota_with_exclusive_cpus
    }

    /// Whether MemoryQoS is enabled and the machine has v2, which it needs.
    pub fn memory_qos(&self) -> bool {
        self.settings.memory_qos && self.facts.v2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_machine::cgroup::{Facts, Membership, MountFact};

    fn mount(version: Version, point: &str, controllers: &str) -> MountFact {
        MountFact {
            root: String::from("/"),
            mount_point: point.into(),
            version,
            controllers: controllers.split(' ').map(str::to_owned).collect(),
            visible: true,
        }
    }

    fn facts(mounts: Vec<MountFact>, memberships: Vec<Membership>) -> HierarchyFacts {
        let layout = Layout::decide(&Facts { mounts, memberships }).expect("a layout");
        let files = OptionalFiles { swap: true, cpu_idle: false, oom_group: true };
        HierarchyFacts::of(&layout, files, 4096)
    }

    #[test]
    fn a_unified_machine_has_the_controllers_of_its_mount() {
        let facts = facts(vec![mount(Version::V2, "/sys/fs/cgroup", "cpu memory pids")], Vec::new());
        let wanted = HierarchyFacts {
            version: Version::V2,
            pids: true,
            cpuset: false,
            hugetlb: false,
            swap: true,
            cpu_idle: false,
            oom_group: true,
            page_size: 4096,
        };
        assert_eq!(facts, wanted);
    }

    #[test]
    fn a_hybrid_machine_is_v1() {
        let v1 = |name: &str| mount(Version::V1, &format!("/sys/fs/cgroup/{name}"), name);
        let member = |(id, name): (u32, &str)| Membership {
            id,
            controllers: vec![name.to_owned()],
            path: String::from("/"),
        };
        let mut mounts: Vec<_> = ["cpu", "memory", "hugetlb"].map(v1).into();
        mounts.push(mount(Version::V2, "/sys/fs/cgroup/unified", "pids"));
        let facts = facts(mounts, [(1, "cpu"), (2, "memory"), (3, "hugetlb")].map(member).into());
        assert_eq!(
            (facts.version, facts.hugetlb, facts.pids, facts.cpuset),
            (Version::V1, true, true, false)
        );
    }
}
