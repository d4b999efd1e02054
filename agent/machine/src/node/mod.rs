//! The node's capacity and its daemons.

pub mod addresses;
pub mod daemons;
pub mod gather;

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
