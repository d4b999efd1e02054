//! What the kernel programs counted for a cgroup. A topic that is off is `None`.

use std::sync::{Arc, LazyLock};

/// Buckets of every latency histogram here.
pub const WAIT_BUCKETS: usize = 24;
/// Bucket `i` holds values below 2^(WAIT_FIRST_SHIFT + i) ns (and not below the bound before); the last one has
/// no upper bound. So the bounds run from 1.024 µs to 4.3 s.
pub const WAIT_FIRST_SHIFT: u32 = 10;

/// A log2 histogram of nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Log2Histogram {
    pub buckets: [u64; WAIT_BUCKETS],
    /// Sum of all values in nanoseconds.
    pub sum_ns: u64,
}

impl Log2Histogram {
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Upper bound of bucket `i` in nanoseconds; `None` for the last.
    pub fn upper_bound_ns(i: usize) -> Option<u64> {
        (i + 1 < WAIT_BUCKETS).then(|| 1u64 << (WAIT_FIRST_SHIFT as usize + i))
    }

    /// The bound of the bucket in which quantile `q` (0…1) falls, in nanoseconds; 0 when empty. The last bucket
    /// answers with its lower bound.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let total = self.count();
        if total == 0 {
            return 0;
        }
        let rank = ((total as f64) * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Self::upper_bound_ns(i)
                    .unwrap_or(1 << (WAIT_FIRST_SHIFT as usize + WAIT_BUCKETS - 2));
            }
        }
        0
    }
}

/// Totals since the agent began to watch the cgroup, not counting its children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelCounters {
    pub cpu: Option<CpuCounters>,
    /// Processes of this cgroup that the OOM killer killed.
    pub oom_kills: Option<u64>,
    pub reclaim: Option<ReclaimCounters>,
    pub process: Option<ProcessCounters>,
    pub network: Option<NetworkCounters>,
    /// Shared by all that have nothing: most cgroups never wait for a device.
    pub block: Option<Arc<BlockCounters>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuCounters {
    pub on_cpu_ns: u64,
    /// Time spent runnable but waiting for a CPU, one value each time a task got one.
    pub wait: Log2Histogram,
    /// The task gave the CPU up itself (blocked, slept, exited).
    pub voluntary_switches: u64,
    /// The task was still runnable when it lost the CPU.
    pub preempted_switches: u64,
}

/// Reclaim done by tasks of this cgroup that had to wait for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReclaimCounters {
    /// Direct reclaim: the node ran short.
    pub direct_count: u64,
    pub direct_stall_ns: u64,
    pub direct_pages: u64,
    /// Memory-cgroup reclaim: a limit was reached.
    pub memcg_count: u64,
    pub memcg_stall_ns: u64,
    pub memcg_pages: u64,
}

/// Processes (thread groups), not threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    pub forks: u64,
    pub execs: u64,
    pub exits: u64,
    /// Of the exits, those by a signal.
    pub signal_exits: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
}

/// Device time of block requests (issue to completion).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounters {
    pub read: Log2Histogram,
    pub write: Log2Histogram,
}

impl BlockCounters {
    /// With one value for all that have nothing.
    pub fn shared(self) -> Arc<Self> {
        static NOTHING: LazyLock<Arc<BlockCounters>> = LazyLock::new(Arc::default);
        if self == **NOTHING { NOTHING.clone() } else { Arc::new(self) }
    }
}
