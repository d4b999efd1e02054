//! What the kernel's own files say of a cgroup and of the machine. Times in nanoseconds, sizes in bytes.

use std::time::SystemTime;

/// One reading of a cgroup's files. A controller that the cgroup lacks is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// When it was read; `None` if never (a cgroup that lived too short).
    pub time: Option<SystemTime>,
    pub cpu: Option<CpuUsage>,
    pub memory: Option<MemoryUsage>,
    pub processes: Option<ProcessUsage>,
    /// One entry a block device.
    pub io: Vec<IoUsage>,
    pub pressures: Pressures,
}

/// CPU controller and accounting. Source: `cpu.stat`, `cpu.weight`, `cpu.max` (v2); `cpuacct.usage`,
/// `cpuacct.stat`, `cpu.stat`, `cpu.shares`, `cpu.cfs_*` (v1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuUsage {
    pub usage_ns: u64,
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    /// CFS periods, throttled periods and time throttled: only where a quota can apply.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_ns: Option<u64>,
    /// v1 `cpu.shares`.
    pub shares: Option<u64>,
    /// v2 `cpu.weight`.
    pub weight: Option<u64>,
    /// CFS quota in microseconds a period; `None` without a limit.
    pub quota_us: Option<u64>,
    pub period_us: Option<u64>,
}

/// Memory controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    pub usage_bytes: u64,
    /// usage − inactive_file, as cAdvisor and the kubelet compute it (never below 0).
    pub working_set_bytes: u64,
    /// Anonymous memory: v2 `anon`, v1 `total_rss`.
    pub rss_bytes: Option<u64>,
    /// Page cache: v2 `file`, v1 `total_cache`.
    pub cache_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub mapped_file_bytes: Option<u64>,
    pub kernel_bytes: Option<u64>,
    pub active_file_bytes: Option<u64>,
    pub inactive_file_bytes: Option<u64>,
    /// Highest use so far: v1 `memory.max_usage_in_bytes`, v2 `memory.peak`.
    pub max_usage_bytes: Option<u64>,
    /// v1 `memory.failcnt`.
    pub failcnt: Option<u64>,
    pub page_faults: Option<u64>,
    pub major_page_faults: Option<u64>,
    /// Page faults of the cgroup itself without its children (cAdvisor's scope="container"): v1 only.
    pub own_page_faults: Option<u64>,
    pub own_major_page_faults: Option<u64>,
    /// `None` without a limit.
    pub limit_bytes: Option<u64>,
    /// v1 memory+swap limit, v2 swap limit; `None` without one.
    pub swap_limit_bytes: Option<u64>,
    /// v1 soft limit or v2 `memory.min`, as cAdvisor; `None` without one.
    pub reservation_bytes: Option<u64>,
    /// v2 `memory.high`.
    pub high_bytes: Option<u64>,
    pub events: MemoryEvents,
}

/// v2 `memory.events`; on v1 only `oom_kill` (from `memory.oom_control`) is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    pub low: Option<u64>,
    pub high: Option<u64>,
    pub max: Option<u64>,
    pub oom: Option<u64>,
    pub oom_kill: Option<u64>,
}

/// pids controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Threads, as `pids.current` counts.
    pub threads: u64,
    /// `pids.max`; `None` without a limit.
    pub max: Option<u64>,
}

/// I/O of one block device, since the cgroup was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IoUsage {
    pub major: u32,
    pub minor: u32,
    /// Device path (`/dev/vda`) where the machine knows it.
    pub device: Option<String>,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// PSI of one resource. Source: `*.pressure`, Documentation/accounting/psi.rst.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    pub some: PressureLine,
    /// Not defined for CPU at the root on older kernels.
    pub full: Option<PressureLine>,
}

/// Shares of time in percent and the total stall time in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressureLine {
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
    pub total_us: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressures {
    pub cpu: Option<Pressure>,
    pub memory: Option<Pressure>,
    pub io: Option<Pressure>,
}

/// The machine: identity and totals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// Node name as configured, else the host name.
    pub node_name: String,
    pub boot_time: Option<SystemTime>,
    pub kernel_version: String,
    pub os_version: String,
    pub machine_id: String,
    pub boot_id: String,
    pub system_uuid: String,
    /// Online CPUs.
    pub cpus: u32,
    pub memory_bytes: u64,
    pub swap_bytes: u64,
    /// Node totals as /stats/summary wants them: CPU and memory of the root cgroup, else from /proc.
    pub usage: Usage,
    /// Bytes available without swapping: capacity − working set of the root, as the kubelet computes it.
    pub memory_available_bytes: Option<u64>,
    pub max_pids: Option<u64>,
    pub processes: Option<u64>,
    /// Root file system.
    pub fs: Option<FsUsage>,
    pub interfaces: Vec<Interface>,
}

/// A file system by statvfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FsUsage {
    pub capacity_bytes: u64,
    pub available_bytes: u64,
    pub used_bytes: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

/// A network interface of the host, from /proc/net/dev.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}
