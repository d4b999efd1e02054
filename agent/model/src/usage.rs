//! The values of the kernel's own files about a cgroup and about the machine. Times in nanoseconds, sizes in
//! bytes, unless a name says otherwise. Counters of a cgroup include its children and run from its creation.

use std::time::SystemTime;

/// One reading of a cgroup's files. The part of a controller that the cgroup lacks is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// When the files were read; `None` if they never were (the cgroup did not live long enough).
    pub time: Option<SystemTime>,
    /// CPU controller and accounting.
    pub cpu: Option<CpuUsage>,
    /// Memory controller.
    pub memory: Option<MemoryUsage>,
    /// pids controller.
    pub processes: Option<ProcessUsage>,
    /// One entry per block device.
    pub io: Vec<IoUsage>,
    /// Pressure stall information.
    pub pressures: Pressures,
}

/// CPU controller and accounting. Source: `cpu.stat`, `cpu.weight`, `cpu.max` (v2); `cpuacct.usage`,
/// `cpuacct.stat`, `cpu.stat`, `cpu.shares`, `cpu.cfs_*` (v1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// CPU time consumed, in nanoseconds.
    pub usage_ns: u64,
    /// The part of it in user mode, in nanoseconds; on v1 from samples at every tick.
    pub user_ns: Option<u64>,
    /// The part of it in kernel mode, in nanoseconds; on v1 from samples at every tick.
    pub system_ns: Option<u64>,
    /// CFS periods that have elapsed; known only where a quota can apply.
    pub periods: Option<u64>,
    /// CFS periods in which the cgroup was throttled.
    pub throttled_periods: Option<u64>,
    /// Time throttled, in nanoseconds, summed over the CPUs.
    pub throttled_ns: Option<u64>,
    /// v1 `cpu.shares`.
    pub shares: Option<u64>,
    /// v2 `cpu.weight`.
    pub weight: Option<u64>,
    /// CFS quota in microseconds per period; `None` without a limit.
    pub quota_us: Option<u64>,
    /// CFS period in microseconds.
    pub period_us: Option<u64>,
}

/// Memory controller. Source: `memory.*` of v1 or v2; at the root of v2 /proc/meminfo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Memory in use, page cache included: v2 `memory.current`, v1 `memory.usage_in_bytes`.
    pub usage_bytes: u64,
    /// usage − inactive_file, as cAdvisor and the kubelet compute it (never below 0).
    pub working_set_bytes: u64,
    /// Anonymous memory: v2 `anon`, v1 `total_rss`.
    pub rss_bytes: Option<u64>,
    /// Page cache: v2 `file`, v1 `total_cache`.
    pub cache_bytes: Option<u64>,
    /// Swap in use: v2 `memory.swap.current`, v1 `total_swap`.
    pub swap_bytes: Option<u64>,
    /// Page cache that is mapped: v2 `file_mapped`, v1 `total_mapped_file`.
    pub mapped_file_bytes: Option<u64>,
    /// Kernel memory: v2 `kernel`, v1 `memory.kmem.usage_in_bytes`.
    pub kernel_bytes: Option<u64>,
    /// Page cache on the active list.
    pub active_file_bytes: Option<u64>,
    /// Page cache on the inactive list, which is reclaimed first.
    pub inactive_file_bytes: Option<u64>,
    /// Highest usage so far: v1 `memory.max_usage_in_bytes`, v2 `memory.peak`.
    pub max_usage_bytes: Option<u64>,
    /// How often the limit was hit: v1 `memory.failcnt`.
    pub failcnt: Option<u64>,
    /// Page faults: `pgfault`.
    pub page_faults: Option<u64>,
    /// Page faults that had to read from a disk: `pgmajfault`.
    pub major_page_faults: Option<u64>,
    /// Page faults of the cgroup itself without its children (cAdvisor's scope="container"): v1 only.
    pub own_page_faults: Option<u64>,
    /// The same for page faults that had to read from a disk: v1 only.
    pub own_major_page_faults: Option<u64>,
    /// v2 `memory.max`, v1 `memory.limit_in_bytes`; `None` without a limit.
    pub limit_bytes: Option<u64>,
    /// v1 memory+swap limit, v2 swap limit; `None` without one.
    pub swap_limit_bytes: Option<u64>,
    /// v1 soft limit or v2 `memory.min`, as cAdvisor; `None` without one.
    pub reservation_bytes: Option<u64>,
    /// v2 `memory.high`; `None` without one.
    pub high_bytes: Option<u64>,
    /// Counts of memory events.
    pub events: MemoryEvents,
}

/// v2 `memory.events`, whose counts include the children's; on v1 only `oom_kill` (from `memory.oom_control`)
/// is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// How often memory was reclaimed although the usage was below `memory.low`.
    pub low: Option<u64>,
    /// How often processes were throttled because `memory.high` was exceeded.
    pub high: Option<u64>,
    /// How often the usage was about to exceed `memory.max`.
    pub max: Option<u64>,
    /// How often the limit was reached and an allocation was about to fail.
    pub oom: Option<u64>,
    /// Number of processes killed by any kind of OOM killer.
    pub oom_kill: Option<u64>,
}

/// pids controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Number of threads, as `pids.current` counts them.
    pub threads: u64,
    /// `pids.max`; `None` without a limit.
    pub max: Option<u64>,
}

/// I/O of one block device since the cgroup was created. Source: v2 `io.stat`, v1
/// `blkio.throttle.*_recursive`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IoUsage {
    /// The device's major number.
    pub major: u32,
    /// The device's minor number.
    pub minor: u32,
    /// Device path (`/dev/vda`) if the machine has one.
    pub device: Option<String>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// PSI of one resource. Source: `*.pressure`, Documentation/accounting/psi.rst.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// At least one task was stalled.
    pub some: PressureLine,
    /// All tasks that were not idle were stalled. `None` where the kernel does not define it: for the CPU at
    /// the root before Linux 5.13.
    pub full: Option<PressureLine>,
}

/// Stall times of one line of a PSI file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressureLine {
    /// Share of the last 10 seconds, in percent.
    pub avg10: f64,
    /// Share of the last 60 seconds, in percent.
    pub avg60: f64,
    /// Share of the last 300 seconds, in percent.
    pub avg300: f64,
    /// Total stall time in microseconds.
    pub total_us: u64,
}

/// PSI of a cgroup or of the machine. `None` where the kernel does not provide it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressures {
    /// Tasks that waited for a CPU.
    pub cpu: Option<Pressure>,
    /// Tasks that waited for memory to be reclaimed or read back.
    pub memory: Option<Pressure>,
    /// Tasks that waited for I/O.
    pub io: Option<Pressure>,
}

impl Pressures {
    /// Whether no task was stalled in the last five minutes, as far as the averages show.
    pub fn are_none(&self) -> bool {
        let all = [self.cpu, self.memory, self.io].into_iter().flatten();
        let lines = all.flat_map(|pressure| [Some(pressure.some), pressure.full]).flatten();
        lines.flat_map(|line| [line.avg10, line.avg60, line.avg300]).all(|average| average == 0.0)
    }
}

/// The machine: identity and totals. A text that could not be read is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// Node name as configured, else the host name in lower case.
    pub node_name: String,
    /// When the kernel was booted (`btime` of /proc/stat).
    pub boot_time: Option<SystemTime>,
    /// The kernel's release: `6.18.0`.
    pub kernel_version: String,
    /// PRETTY_NAME of /etc/os-release.
    pub os_version: String,
    /// /etc/machine-id.
    pub machine_id: String,
    /// /proc/sys/kernel/random/boot_id.
    pub boot_id: String,
    /// /sys/class/dmi/id/product_uuid.
    pub system_uuid: String,
    /// Number of CPUs that the agent may use; 0 if it could not be determined.
    pub cpus: u32,
    /// Total memory (`MemTotal`).
    pub memory_bytes: u64,
    /// Total swap (`SwapTotal`).
    pub swap_bytes: u64,
    /// Node totals as /stats/summary has them: CPU and memory of the root cgroup, else from /proc.
    pub usage: Usage,
    /// Bytes available without swapping: total memory − working set of the root, as the kubelet computes it.
    pub memory_available_bytes: Option<u64>,
    /// Maximum number of process ids (/proc/sys/kernel/pid_max).
    pub max_pids: Option<u64>,
    /// Number of threads that exist (/proc/loadavg).
    pub processes: Option<u64>,
    /// Root file system.
    pub fs: Option<FsUsage>,
    /// Network interfaces of the host, by /proc/net/dev.
    pub interfaces: Vec<Interface>,
}

/// Usage of a file system, by statvfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FsUsage {
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// Bytes available to unprivileged users.
    pub available_bytes: u64,
    /// Bytes that are not free; with `available_bytes` less than the size where blocks are reserved for root.
    pub used_bytes: u64,
    /// Inodes in total.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// A network interface of the host, from /proc/net/dev.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name: `eth0`.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Send errors.
    pub tx_errors: u64,
    /// Packets to be sent that were dropped.
    pub tx_dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_the_last_five_minutes_show_in_the_averages() {
        let line = |avg300| PressureLine { avg300, total_us: 7, ..PressureLine::default() };
        let of = |some, full: Option<f64>| Some(Pressure { some: line(some), full: full.map(line) });
        let pressures = |cpu, io| Pressures { cpu, io, memory: None };
        assert!(Pressures::default().are_none());
        assert!(pressures(of(0.0, None), of(0.0, Some(0.0))).are_none(), "of an earlier time");
        assert!(!pressures(of(0.01, None), None).are_none());
        assert!(!pressures(None, of(0.0, Some(0.2))).are_none());
    }
}
