//! What an operator sets of feedback: `nodewarden.feedback`. Off by default.

use std::time::Duration;

/// Squeezing of lower levels while upper ones wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackSettings {
    /// `periodMilliseconds`: time between two readings.
    pub period: Duration,
    /// `holdSeconds`: how long it must be calm before something is released.
    pub hold: Duration,
    /// `maxHoldSeconds`: the longest that this becomes, doubled each time that a release was too early.
    pub max_hold: Duration,
    pub cpu: CpuFeedback,
    pub memory: MemoryFeedback,
}

/// `cpu`: BestEffort is held back while a Guaranteed or Burstable pod waits for a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFeedback {
    pub enabled: bool,
    /// `waitMilliseconds`: how long the tasks of one pod may wait in run queues together, in each second.
    pub wait: Duration,
    /// `leastMilliCPU`: what BestEffort keeps in any case, in thousandths of a CPU.
    pub least_milli: u64,
}

/// `memory`: BestEffort's, then Burstable's `memory.high` before eviction (cgroup v2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFeedback {
    pub enabled: bool,
    /// `distance`: how far above the threshold of `memory.available` BestEffort is held back, in bytes; Burstable from
    /// half of it.
    pub distance: u64,
    /// `least`: what BestEffort keeps in any case, in bytes.
    pub least: u64,
}

impl FeedbackSettings {
    pub fn enabled(&self) -> bool {
        self.cpu.enabled || self.memory.enabled
    }
}

impl Default for FeedbackSettings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            hold: Duration::from_secs(10),
            max_hold: Duration::from_secs(300),
            cpu: CpuFeedback { enabled: false, wait: Duration::from_millis(50), least_milli: 50 },
            memory: MemoryFeedback { enabled: false, distance: 512 << 20, least: 64 << 20 },
        }
    }
}
