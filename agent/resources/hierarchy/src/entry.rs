//! Single limits: the file of each, and whether a change grants or takes resources.

use std::cmp::Ordering;
use std::fmt;

use nodewarden_machine::cgroup::control::{Bound, CpuQuota, CpuShare, Limits, PageSize};
use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_machine::cpu_list::CpuList;

/// One limit of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    Cpu,
    CpuQuota,
    CpuIdle,
    Cpuset,
    MemoryMax,
    MemoryMin,
    MemoryLow,
    MemoryHigh,
    SwapMax,
    MemswMax,
    OomGroup,
    PidsMax,
    Hugetlb(PageSize),
}

/// Value of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Cpu(CpuShare),
    Quota(CpuQuota),
    Flag(bool),
    List(String),
    Bound(Bound),
}

impl Limit {
    /// The controller of the file.
    fn controller(self) -> Controller {
        match self {
            Self::Cpu | Self::CpuQuota | Self::CpuIdle => Controller::Cpu,
            Self::Cpuset => Controller::Cpuset,
            Self::PidsMax => Controller::Pids,
            Self::Hugetlb(_) => Controller::Hugetlb,
            Self::MemoryMax
            | Self::MemoryMin
            | Self::MemoryLow
            | Self::MemoryHigh
            | Self::SwapMax
            | Self::MemswMax
            | Self::OomGroup => Controller::Memory,
        }
    }

    /// The file of the limit on a machine with this layout.
    pub fn file_in(self, layout: &Layout) -> String {
        self.file(layout.hierarchy(self.controller()).map_or(Version::V2, |h| h.version))
    }

    /// The file of the limit, by the version of its controller's hierarchy.
    fn file(self, version: Version) -> String {
        let v1 = version == Version::V1;
        match self {
            Self::Cpu if v1 => "cpu.shares".into(),
            Self::Cpu => "cpu.weight".into(),
            Self::CpuQuota if v1 => "cpu.cfs_quota_us".into(),
            Self::CpuQuota => "cpu.max".into(),
            Self::CpuIdle => "cpu.idle".into(),
            Self::Cpuset => "cpuset.cpus".into(),
            Self::MemoryMax if v1 => "memory.limit_in_bytes".into(),
            Self::MemoryMax => "memory.max".into(),
            Self::MemoryMin => "memory.min".into(),
            Self::MemoryLow => "memory.low".into(),
            Self::MemoryHigh => "memory.high".into(),
            Self::SwapMax => "memory.swap.max".into(),
            Self::MemswMax => "memory.memsw.limit_in_bytes".into(),
            Self::OomGroup => "memory.oom.group".into(),
            Self::PidsMax => "pids.max".into(),
            Self::Hugetlb(size) if v1 => format!("hugetlb.{size}.limit_in_bytes"),
            Self::Hugetlb(size) => format!("hugetlb.{size}.max"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(CpuShare::Shares(n) | CpuShare::Weight(n)) => n.fmt(f),
            Self::Quota(q) => write!(f, "{} {}", q.quota_us, q.period_us),
            Self::Flag(on) => u8::from(*on).fmt(f),
            Self::List(text) => f.write_str(text),
            Self::Bound(bound) => bound.fmt(f),
        }
    }
}

impl Value {
    /// Whether a cgroup with `self` may use at least as much as with `other`.
    pub fn at_least(&self, other: &Self) -> bool {
        self.room(other) != Ordering::Less
    }

    fn room(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Cpu(a), Self::Cpu(b)) => share(*a).cmp(&share(*b)),
            (Self::Quota(a), Self::Quota(b)) => ratio(a).total_cmp(&ratio(b)),
            // An idle cgroup gets less. Whether a cgroup is killed as a whole does not change what it may
            // use.
            (Self::Flag(a), Self::Flag(b)) => b.cmp(a),
            (Self::List(a), Self::List(b)) => listed(a).cmp(&listed(b)),
            (Self::Bound(a), Self::Bound(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

fn share(share: CpuShare) -> u64 {
    match share {
        CpuShare::Shares(n) | CpuShare::Weight(n) => n,
    }
}

/// Number of CPUs.
fn ratio(quota: &CpuQuota) -> f64 {
    match quota.quota_us {
        Bound::Max => f64::INFINITY,
        Bound::At(us) => us as f64 / quota.period_us.max(1) as f64,
    }
}

/// How many CPUs a list like `0-3,7` names; an empty one means all.
fn listed(list: &str) -> u32 {
    if list.is_empty() {
        return u32::MAX;
    }
    CpuList::parse_cpuset(list).map_or(0, |list| list.count())
}

/// Every limit that is set, in a fixed order.
pub fn entries(limits: &Limits) -> Vec<(Limit, Value)> {
    let bytes = |n: Option<u64>| n.map(|n| Value::Bound(Bound::At(n)));
    let bound = |b: Option<Bound>| b.map(Value::Bound);
    [
        (Limit::Cpu, limits.cpu.map(Value::Cpu)),
        (Limit::CpuQuota, limits.cpu_quota.map(Value::Quota)),
        (Limit::CpuIdle, limits.cpu_idle.map(Value::Flag)),
        (Limit::Cpuset, limits.cpuset_cpus.clone().map(Value::List)),
        (Limit::MemoryMax, bound(limits.memory_max)),
        (Limit::MemoryMin, bytes(limits.memory_min)),
        (Limit::MemoryLow, bytes(limits.memory_low)),
        (Limit::MemoryHigh, bound(limits.memory_high)),
        (Limit::SwapMax, bound(limits.swap_max)),
        (Limit::MemswMax, bound(limits.memsw_max)),
        (Limit::OomGroup, limits.oom_group.map(Value::Flag)),
        (Limit::PidsMax, bound(limits.pids_max)),
    ]
    .into_iter()
    .filter_map(|(limit, value)| value.map(|v| (limit, v)))
    .chain(limits.hugetlb.iter().map(|(size, b)| (Limit::Hugetlb(size), Value::Bound(b))))
    .collect()
}

/// A copy of `of` with only the limits for which `keep` returns true.
pub fn only(of: &Limits, mut keep: impl FnMut(Limit) -> bool) -> Limits {
    fn if_kept<T: Clone>(desired: bool, value: &Option<T>) -> Option<T> {
        if desired { value.clone() } else { None }
    }
    Limits {
        cpu: if_kept(keep(Limit::Cpu), &of.cpu),
        cpu_quota: if_kept(keep(Limit::CpuQuota), &of.cpu_quota),
        cpu_idle: if_kept(keep(Limit::CpuIdle), &of.cpu_idle),
        cpuset_cpus: if_kept(keep(Limit::Cpuset), &of.cpuset_cpus),
        memory_max: if_kept(keep(Limit::MemoryMax), &of.memory_max),
        memory_min: if_kept(keep(Limit::MemoryMin), &of.memory_min),
        memory_low: if_kept(keep(Limit::MemoryLow), &of.memory_low),
        memory_high: if_kept(keep(Limit::MemoryHigh), &of.memory_high),
        swap_max: if_kept(keep(Limit::SwapMax), &of.swap_max),
        memsw_max: if_kept(keep(Limit::MemswMax), &of.memsw_max),
        oom_group: if_kept(keep(Limit::OomGroup), &of.oom_group),
        pids_max: if_kept(keep(Limit::PidsMax), &of.pids_max),
        hugetlb: of.hugetlb.iter().filter(|(size, _)| keep(Limit::Hugetlb(*size))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_room_or_less() {
        let quota = |q, p| Value::Quota(CpuQuota { quota_us: q, period_us: p });
        let bound = Value::Bound;
        for (more, less) in [
            (bound(Bound::Max), bound(Bound::At(u64::MAX))),
            (bound(Bound::At(2)), bound(Bound::At(1))),
            (quota(Bound::Max, 100_000), quota(Bound::At(1_000_000), 100_000)),
            (quota(Bound::At(50_000), 50_000), quota(Bound::At(60_000), 100_000)),
            (Value::List(String::new()), Value::List("0-3".into())),
            (Value::List("0-3,7".into()), Value::List("4-7".into())),
            (Value::Cpu(CpuShare::Shares(1024)), Value::Cpu(CpuShare::Shares(2))),
        ] {
            assert!(more.at_least(&less) && !less.at_least(&more), "{more} {less}");
            assert!(more.at_least(&more), "{more}");
        }
    }

    #[test]
    fn only_keeps_the_selected_limits() {
        let all = Limits {
            cpu: Some(CpuShare::Shares(2)),
            memory_max: Some(Bound::Max),
            pids_max: Some(Bound::At(9)),
            hugetlb: [(PageSize(2 << 20), Bound::At(0))].into(),
            ..Limits::default()
        };
        assert_eq!(only(&all, |_| true), all);
        assert_eq!(only(&all, |_| false), Limits::default());
        let desired = only(&all, |l| matches!(l, Limit::Hugetlb(_) | Limit::PidsMax));
        let names: Vec<_> =
            entries(&desired).into_iter().map(|(l, v)| (l.file(Version::V2), v.to_string())).collect();
        assert_eq!(names, [("pids.max".to_owned(), "9".to_owned()), ("hugetlb.2MB.max".into(), "0".into())]);
    }
}
