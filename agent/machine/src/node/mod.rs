//! The node's capacity and its daemons.

pub mod addresses;
pub mod daemons;
pub mod gather;
pub mod kernel_settings;
pub mod logind;
pub mod system_cgroups;

use std::collections::BTreeMap;

use crate::cgroup::control::PageSize;

/// The capacity of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Thousandths of a CPU: the online CPUs.
    pub cpu_milli: u64,
    /// `MemTotal` in bytes.
    pub memory_bytes: u64,
    /// `SwapTotal` in bytes.
    pub swap_bytes: u64,
    /// Bytes of preallocated huge pages for every size that the kernel knows.
    pub hugepages: BTreeMap<PageSize, u64>,
    /// Processes: the smaller of `kernel.pid_max` and `kernel.threads-max`.
    pub pids: u64,
    /// Online CPUs as a list (`0-1`).
    pub cpus: String,
    /// Bytes of the file system that holds pods' local data; `None` if it was not requested.
    pub ephemeral_storage_bytes: Option<u64>,
}

impl Capacity {
    /// What is different in `now`, as text for people: each amount before and after. Empty if nothing is.
    pub fn change_to(&self, now: &Self) -> String {
        let amount = |name: String, before: String, now: String| {
            (before != now).then(|| format!("{name} from {before} to {now}"))
        };
        let size = |size: &PageSize| {
            let of = |own: &Self| own.hugepages.get(size).copied().unwrap_or(0).to_string();
            amount(format!("huge pages of {size}, in bytes,"), of(self), of(now))
        };
        let storage =
            |own: &Self| own.ephemeral_storage_bytes.map_or("unknown".to_owned(), |n| n.to_string());
        let sizes: std::collections::BTreeSet<&PageSize> =
            self.hugepages.keys().chain(now.hugepages.keys()).collect();
        [
            amount("CPUs online".to_owned(), self.cpus.clone(), now.cpus.clone()),
            amount("bytes of memory".to_owned(), self.memory_bytes.to_string(), now.memory_bytes.to_string()),
            amount("bytes of swap".to_owned(), self.swap_bytes.to_string(), now.swap_bytes.to_string()),
            amount("processes".to_owned(), self.pids.to_string(), now.pids.to_string()),
            amount("bytes of ephemeral storage".to_owned(), storage(self), storage(now)),
        ]
        .into_iter()
        .chain(sizes.into_iter().map(size))
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_is_different() {
        let before = Capacity {
            cpu_milli: 2000,
            cpus: "0-1".into(),
            memory_bytes: 100,
            hugepages: BTreeMap::from([(PageSize(2 << 20), 0)]),
            ..Capacity::default()
        };
        assert_eq!(before.change_to(&before), "");
        let now = Capacity {
            cpu_milli: 1000,
            cpus: "0".into(),
            hugepages: BTreeMap::from([(PageSize(2 << 20), 4 << 20)]),
            ..before.clone()
        };
        assert_eq!(
            before.change_to(&now),
            "CPUs online from 0-1 to 0; huge pages of 2MB, in bytes, from 0 to 4194304"
        );
    }
}
