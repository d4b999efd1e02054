//! Counters of one cgroup, by topic. They are in arrays that the agent maps into its memory.

/// Buckets of a latency histogram.
pub const LATENCY_BUCKETS: usize = 24;
/// Bucket `i` counts values below 2^(LATENCY_FIRST_SHIFT + i) ns; the last one counts all greater values too.
pub const LATENCY_FIRST_SHIFT: u32 = 10;

/// CPU use of one cgroup on one CPU: two cache lines, written only by that CPU. The buckets are 32 bits wide
/// and wrap around; the agent adds up the differences between its readings.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CpuCell {
    /// Time on the CPU, without the turn that is still running.
    pub on_cpu_ns: u64,
    /// Time that tasks were runnable and waited in a run queue.
    pub wait_ns: u64,
    /// Switches away from a task that blocked.
    pub voluntary: u64,
    /// Switches away from a task that could have run on.
    pub preempted: u64,
    /// Waits before each turn, by length.
    pub wait: [u32; LATENCY_BUCKETS],
}

/// Which task runs on one CPU, and since when.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct CpuState {
    /// Begin of its turn (CLOCK_MONOTONIC, ns); 0 before the first switch.
    pub since_ns: u64,
    /// The running task's `sched_info.run_delay` before its present turn.
    pub run_delay_ns: u64,
    /// The running task's slot, or `NO_SLOT`.
    pub slot: u32,
    /// The running task; 0 is the idle task.
    pub pid: u32,
    /// The scheduler's clock minus CLOCK_MONOTONIC, in ns, measured at the last turn.
    pub clock_offset_ns: u64,
    /// Number of switches that the kernel made without calling the tracepoint.
    pub untraced: u64,
}

/// How long a task had waited in total when its last turn on a CPU ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LastTurn {
    /// The task; 0 for none.
    pub pid: u64,
    /// Its `sched_info.run_delay`.
    pub run_delay_ns: u64,
}

/// Network use of one cgroup on one CPU: IP packets, and their bytes with headers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NetworkCell {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// Counters of one cgroup of the memory controller's hierarchy, shared by all CPUs. "Direct" is reclaim
/// because the node is short of memory, "memcg" because a memory cgroup reached its limit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupCell {
    /// Victims of the OOM killer.
    pub oom_kills: u64,
    /// Direct reclaims by tasks of the cgroup.
    pub direct_count: u64,
    /// Time that tasks spent in them.
    pub direct_stall_ns: u64,
    /// Pages that they freed.
    pub direct_pages: u64,
    /// Memcg reclaims by tasks of the cgroup.
    pub memcg_count: u64,
    /// Time that tasks spent in them.
    pub memcg_stall_ns: u64,
    /// Pages that they freed.
    pub memcg_pages: u64,
    /// New processes (not threads).
    pub forks: u64,
    /// Successful execve(2) calls.
    pub execs: u64,
    /// Ends of processes.
    pub exits: u64,
    /// Of these, ends by a signal.
    pub signal_exits: u64,
    /// Unused.
    pub pad: u64,
}

/// Latency of block requests for one cgroup of the io controller's hierarchy, shared by all CPUs. Index 0 is
/// for reads, 1 for writes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BlockCell {
    /// Requests by latency, from issue to completion.
    pub buckets: [[u64; LATENCY_BUCKETS]; 2],
    /// All latencies added up.
    pub sum_ns: [u64; 2],
}
