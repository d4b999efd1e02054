//! Counters of one cgroup, by topic. They live in arrays that the agent maps into its memory.

/// Buckets of a latency histogram.
pub const LATENCY_BUCKETS: usize = 24;
/// Bucket `i` counts values below 2^(LATENCY_FIRST_SHIFT + i) ns, the last all above.
pub const LATENCY_FIRST_SHIFT: u32 = 10;

/// CPU use of one cgroup on one CPU: two cache lines, written only by that CPU. The buckets are 32 bits wide
/// and wrap; the agent adds up differences.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CpuCell {
    pub on_cpu_ns: u64,
    pub wait_ns: u64,
    pub voluntary: u64,
    pub preempted: u64,
    pub wait: [u32; LATENCY_BUCKETS],
}

/// What runs on one CPU since when.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct CpuState {
    /// CLOCK_MONOTONIC, ns.
    pub since_ns: u64,
    /// The running task's `sched_info.run_delay` before its present turn.
    pub run_delay_ns: u64,
    /// The running task's slot, or `NO_SLOT`.
    pub slot: u32,
    /// The running task; 0 is the idle task.
    pub pid: u32,
    /// The scheduler's clock less CLOCK_MONOTONIC, as of the last turn.
    pub clock_offset_ns: u64,
    /// Switches that the tracepoint did not show.
    pub untraced: u64,
}

/// What a task had waited in all when its last turn ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LastTurn {
    pub pid: u64,
    pub run_delay_ns: u64,
}

/// Network use of one cgroup on one CPU.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NetworkCell {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
}

/// What is counted per cgroup of the memory hierarchy, shared by all CPUs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupCell {
    pub oom_kills: u64,
    pub direct_count: u64,
    pub direct_stall_ns: u64,
    pub direct_pages: u64,
    pub memcg_count: u64,
    pub memcg_stall_ns: u64,
    pub memcg_pages: u64,
    pub forks: u64,
    pub execs: u64,
    pub exits: u64,
    pub signal_exits: u64,
    pub pad: u64,
}

/// Block latency of one cgroup of the io hierarchy, shared by all CPUs. Index 0 reads, 1 writes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BlockCell {
    pub buckets: [[u64; LATENCY_BUCKETS]; 2],
    pub sum_ns: [u64; 2],
}
