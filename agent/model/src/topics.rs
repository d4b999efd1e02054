//! The eBPF topics: what the kernel programs gather, each in a file below. A topic's own file has everything
//! except its programs (`ebpf/src`) and the types that these share with the agent (`ebpf/abi/src/topics.rs`):
//! its requirements of the kernel, its counters with their metrics and gRPC fields, its event with its line.
//! This file has the tables in which the topics are listed.

mod block;
mod cgroup_lifecycle;
mod cpu;
mod device;
mod exclusive_cpus;
mod fields;
mod limit_writes;
mod neighbours;
mod network;
mod oom;
mod process;
mod reclaim;
mod samples;
mod spec;

use std::sync::Arc;

use nodewarden_ebpf_abi::{CellReader, Kind, Record};
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use crate::event_body::{Correction, EventBody, events};

pub use block::BlockCounters;
pub use cpu::CpuCounters;
pub use device::{DeviceAccess, DeviceVerdict, device_name};
pub use limit_writes::{LimitWrite, Writer};
pub use network::NetworkCounters;
pub use oom::{LimitScope, OomKill};
pub use process::{Exit, ProcessCounters};
pub use reclaim::ReclaimCounters;
pub use samples::{CgroupFamily, Figure, Sample};
pub use spec::{Argument, Hook, Need, Program, TopicSpec};

/// A topic of the kernel programs. Each is on or off as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Time on CPU, waiting times and context switches.
    Cpu,
    /// Processes killed by the OOM killer.
    Oom,
    /// Tasks that stalled because they had to reclaim memory themselves.
    Reclaim,
    /// Processes that start, execute programs and end.
    Process,
    /// IP packets and bytes.
    Network,
    /// Latencies of block requests.
    Block,
    /// Cgroups that are created, removed, populated or emptied, and processes that are moved between them.
    CgroupLifecycle,
    /// Accesses to devices that were not allocated to the pod. Attached only on request.
    Device,
    /// Who runs on CPUs that one container has for itself. Attached while there are such CPUs.
    ExclusiveCpus,
    /// Who writes limits of cgroups. Attached only on request.
    LimitWrites,
    /// Whom a cgroup's tasks wait for. Attached only on request.
    Neighbours,
}

impl Topic {
    /// Every topic, in the order in which they are shown.
    pub const ALL: [Self; 11] = [
        Self::Cpu,
        Self::Oom,
        Self::Reclaim,
        Self::Process,
        Self::Network,
        Self::Block,
        Self::CgroupLifecycle,
        Self::Device,
        Self::ExclusiveCpus,
        Self::LimitWrites,
        Self::Neighbours,
    ];

    /// The constant description of the topic.
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
            Self::ExclusiveCpus => &exclusive_cpus::TOPIC,
            Self::LimitWrites => &limit_writes::TOPIC,
            Self::Neighbours => &neighbours::TOPIC,
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
            Self::Cpu
            | Self::CgroupLifecycle
            | Self::Device
            | Self::ExclusiveCpus
            | Self::LimitWrites
            | Self::Neighbours => {}
        }
    }
}

/// What the kernel programs counted for a cgroup: totals since the agent began to watch it, not counting its
/// children. The counters of a topic that is off are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Topic cpu.
    pub cpu: Option<CpuCounters>,
    /// Topic oom: processes of this cgroup that the OOM killer killed.
    pub oom_kills: Option<u64>,
    /// Topic reclaim.
    pub reclaim: Option<ReclaimCounters>,
    /// Topic process.
    pub process: Option<ProcessCounters>,
    /// Topic network.
    pub network: Option<NetworkCounters>,
    /// Topic block. One value is shared by all cgroups that never waited for a device, which most never do.
    pub block: Option<Arc<BlockCounters>>,
}

impl KernelCounters {
    /// Sets the fields of the gRPC message.
    pub fn put(&self, out: &mut proto::Cgroup) {
        for topic in Topic::ALL {
            (topic.spec().put)(self, out);
        }
    }
}

/// `counters`; `None` if they have never counted anything.
fn counted<T: Default + PartialEq>(counters: Option<&T>) -> Option<&T> {
    counters.filter(|c| **c != T::default())
}

/// What is known of the cgroups when a record of the kernel programs is turned into an event.
pub trait Tree {
    /// Path of the cgroup with the kernel id `id` in the hierarchy of `space` (an
    /// `nodewarden_ebpf_abi::Space` as a number); `None` if it is not known.
    fn path(&self, space: usize, id: u64) -> Option<Arc<str>>;

    /// Like [`Tree::path`]; a cgroup that is not known is shown by its id.
    fn path_or_id(&mut self, space: usize, id: u64) -> Arc<str>;

    /// Bytes of a page: the kernel counts memory in pages.
    fn page_bytes(&self) -> u64;
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
    TaskMoved {
        /// The process, in the machine's pid namespace.
        pid: u32,
        /// Its command name.
        command: String
    } = "taskMoved";
    /// A limit differed from its desired value and was corrected.
    LimitCorrected(Correction) = "limitCorrected";
    /// What was done to the cgroup hierarchy, or failed: `PodCgroupDestroyed`, `DestroyFailed`,
    /// `LimitDeferred`, ….
    #[serde(rename_all = "camelCase")]
    Hierarchy {
        /// One word.
        reason: String,
        /// A sentence.
        message: String
    } = "hierarchy";
    /// What was done to a pod or one of its containers, or failed, in the kubelet's words: `Pulled`,
    /// `Created`, `Started`, `Killing`, `BackOff`, `Failed`, ….
    #[serde(rename_all = "camelCase")]
    Pod {
        /// The reason of the kubelet's event.
        reason: String,
        /// The message of the kubelet's event.
        message: String
    } = "pod";
    /// A process opened, or tried to open, a device that was not allocated to its pod.
    Device(DeviceAccess) = "device";
    /// Events that were lost because the ring buffer was full, by type.
    #[serde(rename_all = "camelCase")]
    Lost {
        /// The name of the type ([`EventType::name`]).
        lost_type: String,
        /// How many events since the last report.
        count: u64
    } = "lost";
    /// The agent started, stopped, or turned a feature off.
    #[serde(rename_all = "camelCase")]
    Agent {
        /// One word: `started`.
        reason: String,
        /// A sentence.
        message: String
    } = "agent";
}

impl EventType {
    /// The type of event as which a record of this kind is reported; `None` if it is none: it only wakes a
    /// task of the agent, or is kept for another one's event.
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
            Kind::Reclaim | Kind::LimitWrite => return None,
        })
    }
}

/// The event of a record and the path of the cgroup that it happened to; `None` for records that are no event
/// ([`EventType::of`]), and for those of the topic cgroup, which change the tree first (see
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
        | Record::Reclaim(_)
        | Record::LimitWrite(_) => None,
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
        let programs: Vec<_> = programs.flat_map(|program| program.forms().map(|form| form.name)).collect();
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
    fn bodies_survive_the_way_through_grpc() {
        for detail in Detail::examples() {
            if let Some(body) = detail.body() {
                assert_eq!(Detail::from_body(detail.event_type(), body.to_proto()), Some(detail.clone()));
            }
        }
    }
}
