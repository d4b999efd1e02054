//! What the agent can do here, and what it costs.

use std::time::SystemTime;

use super::{EventType, HierarchyStatus, Topic};

/// Whether a topic of the kernel programs works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum HookState {
    /// Works.
    On,
    /// Works, with something left out: the reason says what.
    Partial,
    /// Refused or missing: the reason says why.
    Off,
}

impl HookState {
    /// The name in JSON and in protobuf.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStatus {
    pub topic: Topic,
    pub state: HookState,
    /// Empty when on.
    pub reason: String,
}

/// What one kernel program has cost while it was measured (kernel's own figures, BPF_STATS_RUN_TIME).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCost {
    pub name: String,
    pub topic: Topic,
    /// Where it hangs: `tp_btf/sched_switch`.
    pub hook: String,
    pub run_count: u64,
    pub run_time_ns: u64,
    /// Kernel memory of the program in bytes.
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCounts {
    pub event_type: EventType,
    /// Taken from the ring.
    pub seen: u64,
    /// Refused by a full ring.
    pub lost: u64,
}

/// What the agent itself uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentCost {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    /// All eBPF maps, as the kernel accounts them (fdinfo memlock).
    pub map_bytes: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub version: String,
    /// `observe` or `manage`.
    pub mode: String,
    pub started: SystemTime,
    /// `v1`, `hybrid` or `v2`.
    pub cgroup_layout: String,
    /// Controllers in use, each with the hierarchy it is on: `memory (v1)`.
    pub controllers: Vec<String>,
    pub kernel_version: String,
    pub topics: Vec<TopicStatus>,
    pub programs: Vec<ProgramCost>,
    /// How long the kernel has measured the programs' runs: their counts and times are of that time.
    pub programs_measured_seconds: f64,
    pub events: Vec<EventCounts>,
    /// Number of cgroups with counters, their maximum, and the number of cgroups left out so far.
    pub cgroups: u64,
    pub cgroup_capacity: u64,
    pub cgroups_untracked: u64,
    /// Counts that fell to cgroups without a slot.
    pub untracked_counts: u64,
    pub cost: AgentCost,
    /// Where names come from: the runtime's endpoint, or why there are none.
    pub runtime: String,
    /// Anything else that is off or failing, in words (journal's disk full, a log that cannot be written).
    pub warnings: Vec<String>,
    /// The journal: events in memory, lines on disk not written because of an error.
    pub journal_events: u64,
    pub journal_write_errors: u64,
    /// Accesses to devices that no rule of a pod allowed.
    pub device_denials: Vec<DenialCount>,
    /// In manage mode only.
    pub hierarchy: Option<HierarchyStatus>,
}

/// Accesses of a pod to a device that was not allocated to it, since its access control began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenialCount {
    /// The pod's.
    pub uid: String,
    /// `c 10:229`; `other` for all beyond those that are counted each for itself.
    pub device: String,
    pub audited: u64,
    pub denied: u64,
}
