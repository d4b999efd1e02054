//! The eBPF topics: what the kernel programs gather, each in a file below. A topic's own file has all of it
//! but its programs (`ebpf/src`) and what they share with the agent (`ebpf/abi/src/topics.rs`): what it needs
//! of the kernel, its counters with their metrics and gRPC fields, its event with its line. Here are the
//! tables in which it is entered.

mod block;
mod cgroup_lifecycle;
mod cpu;
mod device;
mod fields;
mod network;
mod oom;
mod process;
mod reclaim;
mod spec;

use std::sync::Arc;

use nodewarden_ebpf_abi::{CellReader, Kind, Record};
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use crate::event::{Correction, EventBody, Tree, events};

pub use block::BlockCounters;
pub use cpu::CpuCounters;
pub use device::{DeviceAccess, DeviceVerdict, device_name};
pub use network::NetworkCounters;
pub use oom::{LimitScope, OomKill};
pub use process::{Exit, ProcessCounters};
pub use reclaim::ReclaimCounters;
pub use spec::{Hook, Need, Program, TopicSpec};

/// The topics the kernel side gathers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    Cpu,
    Oom,
    Reclaim,
    Process,
    Network,
    Block,
    CgroupLifecycle,
    /// Who may open which device. Only where it is asked for.
    Device,
}

impl Topic {
    /// Every topic, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Cpu,
        Self::Oom,
        Self::Reclaim,
        Self::Process,
        Self::Network,
        Self::Block,
        Self::CgroupLifecycle,
        Self::Device,
    ];

    /// All that is fixed about the topic.
    pub const fn spec(self) -> &'static TopicSpec {
        match self {
            Self::Cpu => &cpu::TOPIC,
            Self::Oom => &oom::TOPIC,
            Self::Reclaim => &reclaim::TOPIC,
            Self::Process => &process::TOPIC,
            Self::Network => &network::TOPIC,
            Self::Block => &block::TOPIC,
            Self::CgroupLifecycle => &cgroup_lifecycle::TOPIC,
            Self::Device => &device::TOPIC,
        }
    }

    /// The name in status, metrics and configuration.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Reads the counters of a slot in the topic's hierarchy into `counters`. Those of the topic cpu are not
    /// totals yet and are read by `nodewarden_observer::counters`.
    pub fn read(self, cells: &impl CellReader, slot: u32, counters: &mut KernelCounters) {
        match self {
            Self::Oom => oom::read(cells, slot, counters),
            Self::Reclaim => reclaim::read(cells, slot, counters),
            Self::Process => process::read(cells, slot, counters),
            Self::Network => network::read(cells, slot, counters),
            Self::Block => block::read(cells, slot, counters),
            Self::Cpu | Self::CgroupLifecycle | Self::Device => {}
        }
    }
}

/// What the kernel programs counted for a cgroup: totals since the agent began to watch it, not counting its
/// children. A topic that is off is `None`.
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

impl KernelCounters {
    /// Fills in the fields of the gRPC message.
    pub fn put(&self, out: &mut proto::Cgroup) {
        for topic in Topic::ALL {
            (topic.spec().put)(self, out);
        }
    }
}

/// `counters`, unless they have never counted anything.
fn counted<T: Default + PartialEq>(counters: Option<&T>) -> Option<&T> {
    counters.filter(|c| **c != T::default())
}

events! {
    /// The kernel's OOM killer killed a process.
    Oom(OomKill) = "oom";
    /// A process ended by a signal, or a container's main process with an exit code other than 0.
    Exit(Exit) = "exit";
    /// A cgroup appeared.
    CgroupCreated {} = "cgroupCreated";
    /// A cgroup was removed.
    CgroupRemoved {} = "cgroupRemoved";
    /// The first process entered the cgroup or its children.
    CgroupPopulated {} = "cgroupPopulated";
    /// The last process left the cgroup and its children.
    CgroupEmptied {} = "cgroupEmptied";
    /// A process was moved into the cgroup.
    TaskMoved { pid: u32, command: String } = "taskMoved";
    /// A limit was not what it should be and was corrected.
    LimitCorrected(Correction) = "limitCorrected";
    /// What was done to the hierarchy, or could not be: `PodCgroupDestroyed`, `DestroyFailed`,
    /// `LimitDeferred`, ….
    #[serde(rename_all = "camelCase")]
    Hierarchy { reason: String, message: String } = "hierarchy";
    /// What was done to a pod or one of its containers, or could not be, in the kubelet's words: `Pulled`,
    /// `Created`, `Started`, `Killing`, `BackOff`, `Failed`, ….
    #[serde(rename_all = "camelCase")]
    Pod { reason: String, message: String } = "pod";
    /// A process wanted to open a device that was not given to its pod.
    Device(DeviceAccess) = "device";
    /// Events that were lost because the ring buffer was full, by type.
    #[serde(rename_all = "camelCase")]
    Lost { lost_type: String, count: u64 } = "lost";
    /// The agent started, stopped, or turned a feature off.
    #[serde(rename_all = "camelCase")]
    Agent { reason: String, message: String } = "agent";
}

impl EventType {
    /// What a record of this kind is reported as; `None` when it only wakes a task of the agent.
    pub fn of(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Created => Self::CgroupCreated,
            Kind::Removed => Self::CgroupRemoved,
            Kind::Populated => Self::CgroupPopulated,
            Kind::Emptied => Self::CgroupEmptied,
            Kind::Moved => Self::TaskMoved,
            Kind::Oom => Self::Oom,
            Kind::Exit => Self::Exit,
            Kind::Device => Self::Device,
            Kind::Reclaim => return None,
        })
    }
}

/// The event of a record and the path of the cgroup that it happened to; `None` for records that only wake a
/// task, and for those of the topic cgroup, which change the tree first (see
/// `nodewarden_observer::registry`).
pub fn event(record: &Record, tree: &mut dyn Tree) -> Option<(Arc<str>, Detail)> {
    match record {
        Record::Oom(r) => Some(oom::event(r, tree)),
        Record::Exit(r) => Some(process::event(r, tree)),
        Record::Device(r) => Some(device::event(r, tree)),
        Record::Created(_)
        | Record::Removed(_)
        | Record::Populated(_)
        | Record::Emptied(_)
        | Record::Moved(_)
        | Record::Reclaim(_) => None,
    }
}

#[cfg(any(test, feature = "testing"))]
impl KernelCounters {
    /// An example for tests: every topic has counted something.
    pub fn example() -> Self {
        Self {
            cpu: Some(CpuCounters::example()),
            oom_kills: Some(1),
            reclaim: Some(ReclaimCounters::example()),
            process: Some(ProcessCounters::example()),
            network: Some(NetworkCounters::example()),
            block: Some(BlockCounters::example().shared()),
        }
    }

    /// An example for tests: every topic is on and has counted nothing.
    pub fn idle() -> Self {
        Self {
            cpu: Some(CpuCounters::default()),
            oom_kills: Some(0),
            reclaim: Some(ReclaimCounters::default()),
            process: Some(ProcessCounters::default()),
            network: Some(NetworkCounters::default()),
            block: Some(BlockCounters::default().shared()),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Detail {
    /// An event of each type, for tests.
    pub fn examples() -> Vec<Self> {
        vec![
            Self::Oom(OomKill::example()),
            Self::Exit(Exit::example()),
            Self::CgroupCreated {},
            Self::CgroupRemoved {},
            Self::CgroupPopulated {},
            Self::CgroupEmptied {},
            Self::TaskMoved { pid: 1, command: "m".into() },
            Self::LimitCorrected(Correction {
                limit: "memory.max".into(),
                found: "1".into(),
                written: "2".into(),
            }),
            Self::Hierarchy { reason: "PodCgroupDestroyed".into(), message: "m".into() },
            Self::Pod { reason: "Started".into(), message: "m".into() },
            Self::Device(DeviceAccess::example()),
            Self::Lost { lost_type: "oom".into(), count: 5 },
            Self::Agent { reason: "started".into(), message: "m".into() },
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = Topic::ALL.into_iter().map(Topic::name).collect();
        assert_eq!(names.len(), Topic::ALL.len());
        assert!(names.iter().all(|name| !name.is_empty()));
        let programs = Topic::ALL.into_iter().flat_map(|topic| topic.spec().programs);
        let programs: Vec<_> = programs.map(|program| program.name).collect();
        assert_eq!(programs.iter().collect::<HashSet<_>>().len(), programs.len());
    }

    #[test]
    fn the_name_in_json_is_the_name_of_the_type() {
        for detail in Detail::examples() {
            let json = serde_json::to_value(&detail).unwrap();
            assert_eq!(json["type"], detail.event_type().name());
            assert_eq!(serde_json::to_value(detail.event_type()).unwrap(), detail.event_type().name());
        }
    }

    #[test]
    fn bodies_come_back_from_grpc() {
        for detail in Detail::examples() {
            if let Some(body) = detail.body() {
                assert_eq!(Detail::from_body(detail.event_type(), body.to_proto()), Some(detail.clone()));
            }
        }
    }
}
