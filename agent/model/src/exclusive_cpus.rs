//! CPUs that one container has for itself: whose they are, and who else ran on them.

use std::collections::BTreeMap;

/// Whose a CPU is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuOwner {
    /// The pod's uid.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// The container's cgroup, or the pod's: its path in the cpu controller's hierarchy. Tasks in it and
    /// below it are the owner's. It may not exist yet.
    pub cgroup: String,
}

/// The exclusive CPUs by their numbers.
pub type CpuOwners = BTreeMap<u32, CpuOwner>;

/// Who uses a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum CpuUser {
    /// Tasks in the owner's cgroup and below it.
    Owner,
    /// Kernel threads.
    KernelThread,
    /// Tasks of other cgroups.
    Other,
    /// Nothing runs.
    Idle,
    /// Handlers of interrupts.
    Interrupt,
    /// Softirqs, those included that the owner's own system calls cause.
    Softirq,
}

impl CpuUser {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Owner, Self::KernelThread, Self::Other, Self::Idle, Self::Interrupt, Self::Softirq];
    /// Those that take the CPU from its owner.
    pub const FOREIGN: [Self; 4] = [Self::KernelThread, Self::Other, Self::Interrupt, Self::Softirq];

    /// The name in metrics and in gRPC: `kernel_thread`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How a CPU was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Time of each user in nanoseconds.
    ns: [u64; CpuUser::ALL.len()],
    /// Switches to each kind of task; how many handlers of interrupts and how many softirqs ran.
    count: [u64; CpuUser::ALL.len()],
}

impl CpuUse {
    /// Time of a user in nanoseconds.
    pub fn ns(&self, user: CpuUser) -> u64 {
        self.ns[user as usize]
    }

    /// Switches to tasks of this kind; for interrupts and softirqs, how many ran.
    pub fn count(&self, user: CpuUser) -> u64 {
        self.count[user as usize]
    }

    /// Adds time and switches of a user.
    pub fn add(&mut self, user: CpuUser, ns: u64, count: u64) {
        self.ns[user as usize] += ns;
        self.count[user as usize] += count;
    }

    /// Time of all users in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.ns.iter().sum()
    }

    /// Time that others than the owner used, in nanoseconds.
    pub fn foreign_ns(&self) -> u64 {
        CpuUser::FOREIGN.into_iter().map(|user| self.ns(user)).sum()
    }

    /// What was added since an earlier reading; 0 where that one was more.
    pub fn since(&self, earlier: &Self) -> Self {
        let less =
            |now: [u64; 6], before: [u64; 6]| std::array::from_fn(|i| now[i].saturating_sub(before[i]));
        Self { ns: less(self.ns, earlier.ns), count: less(self.count, earlier.count) }
    }

    /// The greater of both for each user: totals never decrease.
    pub fn at_least(&self, earlier: &Self) -> Self {
        let more = |now: [u64; 6], before: [u64; 6]| std::array::from_fn(|i| now[i].max(before[i]));
        Self { ns: more(self.ns, earlier.ns), count: more(self.count, earlier.count) }
    }
}

/// The longest time that one user had a CPU at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuTurn {
    /// Who.
    pub user: CpuUser,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// The task's number in the machine's first pid namespace; 0 for interrupts and softirqs.
    pub pid: u32,
    /// The task's command, or what the kernel calls the interrupt or softirq; empty if it is not known.
    pub name: String,
}

/// One exclusive CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExclusiveCpu {
    /// Its number.
    pub cpu: u32,
    /// Whose it is.
    pub owner: CpuOwner,
    /// Totals since it was first exclusive under this agent, by all its owners; `None` while its owner's
    /// cgroup does not exist, or where the kernel programs do not count.
    pub used: Option<CpuUse>,
    /// The longest turn of each foreign user in the last 30 to 60 seconds.
    pub longest: Vec<CpuTurn>,
}

/// Every exclusive CPU, and what prevents counting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExclusiveCpusView {
    /// By number.
    pub cpus: Vec<ExclusiveCpu>,
    /// Why nothing is counted; empty where it is.
    pub problem: String,
}

#[cfg(any(test, feature = "testing"))]
impl ExclusiveCpusView {
    /// An example for tests: one CPU, on which everyone has run.
    pub fn example() -> Self {
        let owner =
            CpuOwner { uid: "8c5e".into(), container: "web".into(), cgroup: "/kubepods/pod8c5e/0123".into() };
        let mut used = CpuUse::default();
        for (user, ns) in CpuUser::ALL.into_iter().zip([9_000_000_000, 1000, 250_000_000, 4000, 5000, 6000]) {
            used.add(user, ns, 2);
        }
        let turn = |user, pid, name: &str| CpuTurn { user, ns: 2_000_000, pid, name: name.into() };
        let longest = vec![turn(CpuUser::Other, 77, "stress"), turn(CpuUser::Softirq, 0, "RCU")];
        Self { cpus: vec![ExclusiveCpu { cpu: 2, owner, used: Some(used), longest }], problem: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_added_and_compared_by_user() {
        let mut early = CpuUse::default();
        early.add(CpuUser::Owner, 5, 1);
        let mut late = early;
        late.add(CpuUser::Owner, 7, 2);
        late.add(CpuUser::Softirq, 3, 4);
        late.add(CpuUser::Idle, 1, 1);
        assert_eq!((late.total_ns(), late.foreign_ns()), (16, 3));
        let between = late.since(&early);
        assert_eq!((between.ns(CpuUser::Owner), between.count(CpuUser::Owner)), (7, 2));
        assert_eq!(early.since(&late), CpuUse::default());
        assert_eq!(early.at_least(&late), late);
    }

    #[test]
    fn the_names_are_those_of_the_metrics() {
        let names = CpuUser::ALL.map(CpuUser::name);
        assert_eq!(names, ["owner", "kernel_thread", "other", "idle", "interrupt", "softirq"]);
        assert!(CpuUser::ALL.iter().enumerate().all(|(i, user)| *user as usize == i));
    }
}
