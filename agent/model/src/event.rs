//! What happened: the record that the journal keeps and the surfaces show.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One event. Serialised as one JSON object a line in the journal and by `nodewarden events --output json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one with every event of this node, also across restarts of the agent.
    pub seq: u64,
    /// When it happened in the kernel (not when it was read).
    pub time: Timestamp,
    /// Path of the cgroup that it happened to; empty for the agent's own events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// The pod and container behind the cgroup, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    #[serde(flatten)]
    pub detail: Detail,
}

/// Pod and container of an event; empty strings are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodRef {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub container_id: String,
    pub container_name: String,
}

/// What happened, by type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Detail {
    /// The kernel's OOM killer killed a process.
    Oom(OomKill),
    /// A process ended by a signal, or a container's main process with an exit code other than 0.
    Exit(Exit),
    /// A cgroup appeared.
    CgroupCreated {},
    /// A cgroup was removed.
    CgroupRemoved {},
    /// The first process entered the cgroup or its children.
    CgroupPopulated {},
    /// The last process left the cgroup and its children.
    CgroupEmptied {},
    /// A process was moved into the cgroup.
    TaskMoved { pid: u32, command: String },
    /// A limit that was not what it should be was put right.
    LimitCorrected(Correction),
    /// What was done to the hierarchy, or could not be: `PodCgroupDestroyed`, `DestroyFailed`, `LimitDeferred`, ….
    #[serde(rename_all = "camelCase")]
    Hierarchy { reason: String, message: String },
    /// What was done to a pod or one of its containers, or could not be, in the kubelet's words: `Pulled`, `Created`,
    /// `Started`, `Killing`, `BackOff`, `Failed`, ….
    #[serde(rename_all = "camelCase")]
    Pod { reason: String, message: String },
    /// A process wanted to open a device that nobody gave its pod.
    Device(DeviceAccess),
    /// Events that the kernel side could not hand over (full ring buffer), by type.
    #[serde(rename_all = "camelCase")]
    Lost { lost_type: String, count: u64 },
    /// The agent started, stopped, or turned a feature off.
    #[serde(rename_all = "camelCase")]
    Agent { reason: String, message: String },
}

/// Where the memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitScope {
    /// A memory cgroup reached its limit.
    Cgroup,
    /// The node ran out.
    Global,
    /// This kernel does not let it be known.
    Unknown,
}

/// One victim of the OOM killer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomKill {
    pub pid: u32,
    pub command: String,
    /// Memory at death in bytes.
    pub total_vm_bytes: u64,
    pub anon_rss_bytes: u64,
    pub file_rss_bytes: u64,
    pub shmem_rss_bytes: u64,
    pub oom_score_adj: i32,
    pub scope: LimitScope,
    /// Which cgroup's limit was reached; empty for a global OOM or when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit_cgroup: String,
    /// That limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The task whose allocation ran out, and its cgroup.
    pub trigger_pid: u32,
    pub trigger_command: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trigger_cgroup: String,
}

/// A process that ended abnormally.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    pub pid: u32,
    /// Its number in its own pid namespace.
    pub namespace_pid: u32,
    pub command: String,
    /// Exit code, 0 when it died by a signal.
    pub code: u32,
    /// Signal number, 0 when it exited itself.
    pub signal: u32,
    /// The first process of its cgroup: its parent lives in another one. Commands that the runtime runs beside it are told
    /// apart by process 1 of their pid namespace, which lives in the same cgroup; where containers share a pid namespace
    /// they count as main ones too.
    pub main: bool,
}

/// One limit of one cgroup that somebody else had changed, or that an earlier agent left otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The file that holds it: `memory.max`.
    pub limit: String,
    /// As the kernel writes them.
    pub found: String,
    pub written: String,
}

/// Accesses to a device that nobody gave the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceAccess {
    /// The process, by its number in the machine's first pid namespace.
    pub pid: u32,
    pub command: String,
    /// Type, major and minor number: `c 10:229`.
    pub device: String,
    /// Where the machine has it, if it has; the pod may know it by another name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What was wanted: of `r` and `w`.
    pub access: String,
    pub verdict: DeviceVerdict,
    /// The runtime's own rules had refused it before: it fails under any policy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused_by_runtime: bool,
    /// Such accesses to this device by this pod since the last event of them, this one among them. There is at most one
    /// event a second.
    pub count: u64,
}

/// What became of an access by our own policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceVerdict {
    /// Refused.
    Denied,
    /// Allowed, and would be refused.
    Audited,
}

impl DeviceVerdict {
    /// The name used in JSON, in protobuf and as a metric label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Audited => "audited",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Denied, Self::Audited].into_iter().find(|verdict| verdict.name() == name)
    }
}

/// The types of events, for filters and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventType {
    Oom,
    Exit,
    CgroupCreated,
    CgroupRemoved,
    CgroupPopulated,
    CgroupEmptied,
    TaskMoved,
    LimitCorrected,
    Hierarchy,
    Pod,
    Device,
    Lost,
    Agent,
}

impl EventType {
    pub const ALL: [Self; 13] = [
        Self::Oom,
        Self::Exit,
        Self::CgroupCreated,
        Self::CgroupRemoved,
        Self::CgroupPopulated,
        Self::CgroupEmptied,
        Self::TaskMoved,
        Self::LimitCorrected,
        Self::Hierarchy,
        Self::Pod,
        Self::Device,
        Self::Lost,
        Self::Agent,
    ];

    /// The name used in JSON, on the command line and as a metric label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Oom => "oom",
            Self::Exit => "exit",
            Self::CgroupCreated => "cgroupCreated",
            Self::CgroupRemoved => "cgroupRemoved",
            Self::CgroupPopulated => "cgroupPopulated",
            Self::CgroupEmptied => "cgroupEmptied",
            Self::TaskMoved => "taskMoved",
            Self::LimitCorrected => "limitCorrected",
            Self::Hierarchy => "hierarchy",
            Self::Pod => "pod",
            Self::Device => "device",
            Self::Lost => "lost",
            Self::Agent => "agent",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

impl Detail {
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Oom(_) => EventType::Oom,
            Self::Exit(_) => EventType::Exit,
            Self::CgroupCreated {} => EventType::CgroupCreated,
            Self::CgroupRemoved {} => EventType::CgroupRemoved,
            Self::CgroupPopulated {} => EventType::CgroupPopulated,
            Self::CgroupEmptied {} => EventType::CgroupEmptied,
            Self::TaskMoved { .. } => EventType::TaskMoved,
            Self::LimitCorrected(_) => EventType::LimitCorrected,
            Self::Hierarchy { .. } => EventType::Hierarchy,
            Self::Pod { .. } => EventType::Pod,
            Self::Device(_) => EventType::Device,
            Self::Lost { .. } => EventType::Lost,
            Self::Agent { .. } => EventType::Agent,
        }
    }
}
