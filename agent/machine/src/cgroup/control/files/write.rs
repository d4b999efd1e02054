//! Which files to write for limits, in which order.

use super::{Interface, SHARES, WEIGHT, linear_shares, linear_weight};
use crate::cgroup::control::{Bound, CpuShare, Limits};
use crate::cgroup::{Controller, Version};

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The controller whose hierarchy has the file.
    pub controller: Controller,
    /// The file's name.
    pub file: String,
    /// The text to write.
    pub text: String,
    /// What follows if there is no such file.
    pub absent: Absent,
}

/// What follows if the cgroup has no such file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// The limit cannot be set: an error.
    Error,
    /// Nothing: this kernel has no such limit and none is wanted, or the controller may be missing.
    Fine,
}

impl Interface {
    /// What must be read before [`Interface::writes`] can decide the order: `before` needs to contain only
    /// these.
    pub fn order_depends_on(&self, limits: &Limits) -> Vec<(Controller, &'static str)> {
        let mut files = Vec::new();
        if self.version(Controller::Cpu) == Some(Version::V1) && limits.cpu_quota.is_some() {
            files.push((Controller::Cpu, "cpu.cfs_quota_us"));
            files.push((Controller::Cpu, "cpu.cfs_period_us"));
        }
        if self.version(Controller::Memory) == Some(Version::V1)
            && limits.memory_max.is_some()
            && limits.memsw_max.is_some()
        {
            files.push((Controller::Memory, "memory.limit_in_bytes"));
            files.push((Controller::Memory, "memory.memsw.limit_in_bytes"));
        }
        files
    }

    /// The writes that set what `limits` contains, in an order in which the kernel accepts each, given the
    /// limits `before`. Limits of missing controllers, and of the other version of cgroups, are left out.
    pub fn writes(&self, limits: &Limits, before: &Limits) -> Vec<Write> {
        let mut list = List { interface: self, writes: Vec::new() };
        list.cpuset(limits);
        list.cpu(limits, before);
        list.memory(limits, before);
        list.pids(limits);
        list.hugetlb(limits);
        list.writes
    }
}

struct List<'a> {
    interface: &'a Interface,
    writes: Vec<Write>,
}

impl List<'_> {
    fn add(&mut self, controller: Controller, file: impl Into<String>, text: impl ToString, absent: Absent) {
        self.writes.push(Write { controller, file: file.into(), text: text.to_string(), absent });
    }

    fn cpuset(&mut self, limits: &Limits) {
        let Some(cpus) = &limits.cpuset_cpus else { return };
        match self.interface.version(Controller::Cpuset) {
            None => {}
            // v1 has no value for "the CPUs of the parent": a new cgroup gets its parent's list.
            Some(Version::V1) if cpus.is_empty() => {}
            // A write of zero bytes does not reach the kernel.
            Some(_) if cpus.is_empty() => self.add(Controller::Cpuset, "cpuset.cpus", "\n", Absent::Fine),
            Some(_) => self.add(Controller::Cpuset, "cpuset.cpus", cpus, Absent::Fine),
        }
    }

    fn cpu(&mut self, limits: &Limits, before: &Limits) {
        let Some(version) = self.interface.version(Controller::Cpu) else { return };
        // An idle cgroup refuses a weight (sched_group_set_shares): idle is cleared before the weight is
        // written and set after it.
        if limits.cpu_idle == Some(false) {
            self.add(Controller::Cpu, "cpu.idle", 0, Absent::Fine);
        }
        if let Some(share) = limits.cpu {
            match version {
                Version::V1 => self.add(Controller::Cpu, "cpu.shares", shares(share), Absent::Error),
                Version::V2 => self.add(Controller::Cpu, "cpu.weight", weight(share), Absent::Error),
            }
        }
        if limits.cpu_idle == Some(true) {
            self.add(Controller::Cpu, "cpu.idle", 1, Absent::Error);
        }
        let Some(quota) = limits.cpu_quota else { return };
        let absent = if quota.quota_us == Bound::Max { Absent::Fine } else { Absent::Error };
        if version == Version::V2 {
            return self.add(
                Controller::Cpu,
                "cpu.max",
                format!("{} {}", quota.quota_us, quota.period_us),
                absent,
            );
        }
        let before = before.cpu_quota;
        if before.is_none_or(|b| b.period_us != quota.period_us) {
            // Quota over period must stay between the parent's and the children's while only one of the two
            // is written (tg_cfs_schedulable_down): without a quota any period will do.
            if before.is_none_or(|b| b.quota_us != Bound::Max) {
                self.add(Controller::Cpu, "cpu.cfs_quota_us", "-1", absent);
            }
            self.add(Controller::Cpu, "cpu.cfs_period_us", quota.period_us, absent);
        }
        self.add(Controller::Cpu, "cpu.cfs_quota_us", minus_one(quota.quota_us), absent);
    }

    fn memory(&mut self, limits: &Limits, before: &Limits) {
        match self.interface.version(Controller::Memory) {
            None => {}
            Some(Version::V1) => self.memory_v1(limits, before),
            Some(Version::V2) => self.memory_v2(limits),
        }
    }

    fn memory_v1(&mut self, limits: &Limits, before: &Limits) {
        let max = limits.memory_max.map(|max| (max, "memory.limit_in_bytes", Absent::Error));
        let memsw = limits.memsw_max.map(|max| {
            // The file does not exist if swap is not accounted.
            (max, "memory.memsw.limit_in_bytes", Absent::Fine)
        });
        // Memory must never be above memory with swap: to raise them, the latter is written first; to lower
        // them, last.
        let memsw_first = match (limits.memory_max, limits.memsw_max, before.memsw_max) {
            (Some(max), Some(_), Some(memsw_before)) => max > memsw_before,
            _ => false,
        };
        let order = if memsw_first { [memsw, max] } else { [max, memsw] };
        for (bound, file, absent) in order.into_iter().flatten() {
            self.add(Controller::Memory, file, minus_one(bound), absent);
        }
    }

    fn memory_v2(&mut self, limits: &Limits) {
        let number = |n: Option<u64>| n.map(|n| if n == u64::MAX { Bound::Max } else { Bound::At(n) });
        let flag = limits.oom_group.map(|on| Bound::At(on.into()));
        // (file, value, the value that a kernel without the file has anyway)
        for (file, value, nothing) in [
            ("memory.oom.group", flag, Bound::At(0)),
            ("memory.min", number(limits.memory_min), Bound::At(0)),
            ("memory.low", number(limits.memory_low), Bound::At(0)),
            ("memory.high", limits.memory_high, Bound::Max),
            ("memory.max", limits.memory_max, Bound::Max),
        ] {
            let Some(value) = value else { continue };
            let absent = if value == nothing && file != "memory.max" { Absent::Fine } else { Absent::Error };
            self.add(Controller::Memory, file, value, absent);
        }
        if let Some(max) = limits.swap_max {
            // A kernel that does not account swap has none of these files, and no swap that is worth a limit.
            self.add(Controller::Memory, "memory.swap.max", max, Absent::Fine);
        }
    }

    fn pids(&mut self, limits: &Limits) {
        if let Some(max) = limits.pids_max
            && self.interface.version(Controller::Pids).is_some()
        {
            self.add(Controller::Pids, "pids.max", self.interface.settled_pids(max), Absent::Fine);
        }
    }

    fn hugetlb(&mut self, limits: &Limits) {
        let Some(version) = self.interface.version(Controller::Hugetlb) else { return };
        for (size, bound) in limits.hugetlb.iter() {
            // Reservations are limited too (kernel 5.7 on): else a reservation above the limit would succeed,
            // and using it would end the process (SIGBUS).
            for file in hugetlb_files(version) {
                let text = match version {
                    Version::V1 => minus_one(bound),
                    Version::V2 => bound.to_string(),
                };
                self.add(Controller::Hugetlb, format!("hugetlb.{size}.{file}"), text, Absent::Fine);
            }
        }
    }
}

/// Limits of use and of reservation.
pub fn hugetlb_files(version: Version) -> [&'static str; 2] {
    match version {
        Version::V1 => ["limit_in_bytes", "rsvd.limit_in_bytes"],
        Version::V2 => ["max", "rsvd.max"],
    }
}

/// v1 writes -1 for no limit.
fn minus_one(bound: Bound) -> String {
    match bound {
        Bound::At(n) => n.to_string(),
        Bound::Max => "-1".to_owned(),
    }
}

/// The share in v1's unit.
pub fn shares(share: CpuShare) -> u64 {
    match share {
        CpuShare::Shares(n) => n.clamp(*SHARES.start(), *SHARES.end()),
        CpuShare::Weight(n) => linear_shares(n),
    }
}

/// The share in v2's unit.
pub fn weight(share: CpuShare) -> u64 {
    match share {
        CpuShare::Shares(n) => linear_weight(n),
        CpuShare::Weight(n) => n.clamp(*WEIGHT.start(), *WEIGHT.end()),
    }
}
