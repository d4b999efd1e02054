//! The limits that are read after others were written.

use super::write::{shares, weight};
use super::{GREATEST_PIDS, Interface};
use crate::cgroup::control::{Bound, CpuShare, Limits};
use crate::cgroup::{Controller, Version};
use crate::cpu_list::CpuList;

impl Interface {
    /// What [`Interface::read`] will return for a cgroup after these limits were written to it: rounded down
    /// to whole pages, in the unit of this machine's version, without what it has no controller or no file
    /// for.
    pub fn settled(&self, limits: &Limits) -> Limits {
        let on = |controller, version| self.version(controller) == Some(version);
        let v2_memory = on(Controller::Memory, Version::V2);
        let bytes = |n: u64| match self.settled_bytes(Bound::At(n), self.page_bytes) {
            Bound::At(n) => n,
            Bound::Max => u64::MAX,
        };
        let memory = |bound: Bound| self.settled_bytes(bound, self.page_bytes);
        Limits {
            cpu: limits.cpu.and_then(|share| match self.version(Controller::Cpu)? {
                Version::V1 => Some(CpuShare::Shares(shares(share))),
                Version::V2 => Some(CpuShare::Weight(weight(share))),
            }),
            cpu_quota: limits.cpu_quota.filter(|_| self.version(Controller::Cpu).is_some()),
            cpu_idle: limits.cpu_idle.filter(|_| self.version(Controller::Cpu).is_some()),
            cpuset_cpus: limits.cpuset_cpus.as_ref().and_then(|cpus| {
                match self.version(Controller::Cpuset)? {
                    Version::V1 if cpus.is_empty() => None,
                    _ => Some(
                        CpuList::parse_cpuset(cpus).map_or_else(|_| cpus.clone(), |list| list.to_string()),
                    ),
                }
            }),
            memory_max: limits.memory_max.filter(|_| self.version(Controller::Memory).is_some()).map(memory),
            memory_min: limits.memory_min.filter(|_| v2_memory).map(bytes),
            memory_low: limits.memory_low.filter(|_| v2_memory).map(bytes),
            memory_high: limits.memory_high.filter(|_| v2_memory).map(memory),
            swap_max: limits.swap_max.filter(|_| v2_memory).map(memory),
            memsw_max: limits.memsw_max.filter(|_| on(Controller::Memory, Version::V1)).map(memory),
            oom_group: limits.oom_group.filter(|_| v2_memory),
            pids_max: limits
                .pids_max
                .filter(|_| self.version(Controller::Pids).is_some())
                .map(|bound| self.settled_pids(bound)),
            hugetlb: limits
                .hugetlb
                .iter()
                .filter(|(size, _)| {
                    self.version(Controller::Hugetlb).is_some() && self.huge_pages.contains(size)
                })
                .map(|(size, bound)| (size, self.settled_bytes(bound, size.0)))
                .collect(),
        }
    }

    /// Bytes rounded down as by a counter of pages of `unit` bytes.
    pub(super) fn settled_bytes(&self, bound: Bound, unit: u64) -> Bound {
        match bound {
            Bound::At(n) if n < self.no_limit(unit) => Bound::At(n / unit * unit),
            _ => Bound::Max,
        }
    }

    /// A number of processes that no machine can have is refused by the kernel: no limit is the same.
    pub(super) fn settled_pids(&self, bound: Bound) -> Bound {
        match bound {
            Bound::At(n) if n <= GREATEST_PIDS => Bound::At(n),
            _ => Bound::Max,
        }
    }
}
