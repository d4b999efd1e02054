//! What the agent can do on this machine, and what it costs.

use std::time::SystemTime;

use super::{EventType, HierarchyStatus, Topic};

/// Whether the kernel programs of a topic work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum HookState {
    /// They all work.
    On,
    /// They work with something left out; [`TopicStatus::reason`] says what.
    Partial,
    /// Refused or missing; [`TopicStatus::reason`] says why.
    Off,
}

impl HookState {
    /// `on`, `partial` or `off`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The state of one topic of kernel programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStatus {
    /// The topic.
    pub topic: Topic,
    /// Whether it works.
    pub state: HookState,
    /// Why it is off, or what is left out; empty when it is on.
    pub reason: String,
}

/// The cost of one kernel program while it was measured (kernel's own figures, BPF_STATS_RUN_TIME).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCost {
    /// The program's name in the eBPF object.
    pub name: String,
    /// The topic that it belongs to.
    pub topic: Topic,
    /// Where it is attached: `tp_btf/sched_switch`.
    pub hook: String,
    /// Number of runs.
    pub run_count: u64,
    /// Time of all runs in nanoseconds.
    pub run_time_ns: u64,
    /// Kernel memory of the program in bytes.
    pub memory_bytes: u64,
    /// Times that the kernel skipped the program because it was already running on that CPU: what it would
    /// have counted or reported is missing. `None` before Linux 5.12, which does not say.
    pub recursion_misses: Option<u64>,
}

/// How many events of one type there were since the agent's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCounts {
    /// The type.
    pub event_type: EventType,
    /// Events read from the ring buffer.
    pub seen: u64,
    /// Events that the kernel programs could not write because the ring buffer was full.
    pub lost: u64,
}

/// The agent's own use of resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentCost {
    /// CPU time of the agent's process since its start, user and system.
    pub cpu_seconds: f64,
    /// Resident memory of the agent's process.
    pub resident_bytes: u64,
    /// Kernel memory of all eBPF maps (fdinfo memlock).
    pub map_bytes: u64,
}

/// The state of the agent, as `nodewarden status` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The agent's version; see [`crate::version()`].
    pub version: String,
    /// `observe` or `manage`.
    pub mode: String,
    /// When the agent started.
    pub started: SystemTime,
    /// `v1`, `hybrid` or `v2`.
    pub cgroup_layout: String,
    /// Controllers in use, each with the hierarchy that it is on: `memory (v1)`.
    pub controllers: Vec<String>,
    /// The kernel's release: `6.18.0`.
    pub kernel_version: String,
    /// Every topic that was to be attached.
    pub topics: Vec<TopicStatus>,
    /// Every attached kernel program.
    pub programs: Vec<ProgramCost>,
    /// How long the kernel has measured the programs' runs: their counts and times are from that time.
    pub programs_measured_seconds: f64,
    /// Events by type.
    pub events: Vec<EventCounts>,
    /// Number of cgroups with kernel counters.
    pub cgroups: u64,
    /// Maximum of `cgroups`.
    pub cgroup_capacity: u64,
    /// Number of cgroups that got no kernel counters because the maximum was reached.
    pub cgroups_untracked: u64,
    /// Counts that are missing from the cgroups because theirs had no kernel counters.
    pub untracked_counts: u64,
    /// The agent's own use of resources.
    pub cost: AgentCost,
    /// Where names come from: the runtime's endpoint, or why there are none.
    pub runtime: String,
    /// Anything else that is off or failing, as sentences (the journal's disk is full, a log cannot be
    /// written).
    pub warnings: Vec<String>,
    /// Number of events that the journal holds in memory.
    pub journal_events: u64,
    /// Number of events that could not be written to the journal on disk.
    pub journal_write_errors: u64,
    /// Accesses to devices that were not allocated to the pod, by pod and device.
    pub device_denials: Vec<DenialCount>,
    /// The managed cgroup hierarchy; `None` in mode observe.
    pub hierarchy: Option<HierarchyStatus>,
    /// What the agent may do.
    pub privileges: Privileges,
}

/// What the agent may do, as the kernel says of all its threads together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privileges {
    /// The capabilities that a thread can use.
    pub capabilities: Vec<HeldCapability>,
    /// The most that programs started by the agent can have.
    pub bounding: Vec<String>,
    /// The capabilities that were given up after the start.
    pub given_up: Vec<String>,
    /// Whether programs that it starts get no privileges by their files (`no_new_privs`).
    pub no_new_privileges: bool,
    /// How many system calls are refused in every thread; 0 without a filter.
    pub refused_calls: u32,
    /// Why something was not given up; empty if everything was that is not needed.
    pub problem: String,
}

/// A capability that the agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCapability {
    /// `CAP_BPF`.
    pub name: String,
    /// What it is needed for; empty if nothing needs it.
    pub why: String,
}

/// Accesses of a pod to a device that was not allocated to it, since its access control began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenialCount {
    /// The pod's uid.
    pub uid: String,
    /// Its namespace; empty if the agent does not know a pod with this uid.
    pub namespace: String,
    /// Its name; empty if the agent does not know a pod with this uid.
    pub name: String,
    /// Type and numbers of the device: `c 10:229`; `other` for all devices beyond those that are counted one
    /// by one.
    pub device: String,
    /// Accesses that were allowed because the policy only audits.
    pub audited: u64,
    /// Accesses that were refused.
    pub denied: u64,
}
