//! The state of the node at one moment, as plain values: the gathering crates (cgroup files, kernel programs,
//! runtime) fill them in, and metrics, API and command line read them. No file, clock or lock in here.
//!
//! Whatever a source may be unable to know is an `Option`: `None` is left out of every output and never shown
//! as zero.

#![deny(missing_docs)]

pub mod backoff;
mod clock;
mod cpu_map;
mod decision;
mod device;
mod disk_use;
mod event;
mod event_body;
mod exclusive_cpus;
pub mod family;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod fnv;
mod group;
mod hierarchy;
mod histogram;
mod identity;
mod image;
mod neighbours;
mod origin;
mod place;
mod pod;
mod probe;
mod reason;
mod status;
mod system;
pub mod text;
mod topics;
mod usage;
mod version;
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

pub use clock::{ClockReading, Shift};
pub use cpu_map::{ContainerMemory, CpuMapView, CpuPlace, NodeMemory};
pub use decision::{
    CandidateSeen, ConditionSeen, Decision, DecisionStep, EvictionStatus, PressureView, SignalSeen,
};
pub use device::{
    DeviceOwner, DeviceResource, DeviceView, DevicesPerNuma, DevicesView, Health, HostDevice, HostDeviceKind,
};
pub use disk_use::{ContainerDiskView, DiskFigure, DiskView, PodDiskView};
pub use event::Event;
pub use event_body::{Correction, EventBody};
pub use exclusive_cpus::{CpuOwner, CpuOwners, CpuTurn, CpuUse, CpuUser, ExclusiveCpu, ExclusiveCpusView};
pub use group::GroupView;
pub use hierarchy::{HierarchyStatus, NodeResource, PodCgroup};
pub use histogram::{Log2Histogram, WAIT_BUCKETS};
pub use identity::{ContainerNames, Identity, PodNames};
pub use image::{
    FsUse, GcOutcome, GcSettings, GcStep, ImageGc, ImageSeen, ImageUse, ImageView, ImagesView, Keep, Used,
};
pub use neighbours::{Neighbour, NeighbourWait, WaitResource, longest};
pub use origin::Origin;
pub use place::{Place, PodRef};
pub use pod::{
    ApiState, ContainerState, ContainerView, Ended, EvictionCause, OomVictim, PodPhase, PodView,
    ReadinessGate, ResizeInProgress, ResizePending,
};
pub use probe::{Buckets, Outcome, ProbeCounts, ProbeRun, ProbeView, ProbesView, Verdict};
pub use reason::{EndReason, PodReason, StatusReason, Waiting, WaitingReason};
pub use status::{
    AgentCost, DenialCount, EventCounts, HeldCapability, HookState, Privileges, ProgramCost, Status,
    TopicStatus,
};
pub use system::SystemCgroups;
pub use topics::{
    Argument, BlockCounters, CgroupFamily, CpuCounters, Detail, DeviceAccess, DeviceVerdict, EventType, Exit,
    Figure, Hook, KernelCounters, LimitScope, LimitWrite, Need, NetworkCounters, OomKill, ProcessCounters,
    Program, ReclaimCounters, Sample, Topic, TopicSpec, Tree, Writer, device_name, event,
};
pub use usage::{
    CpuUsage, FsUsage, Interface, IoUsage, Machine, MemoryEvents, MemoryUsage, Pressure, PressureLine,
    Pressures, ProcessUsage, Usage,
};
pub use version::{set_version, version};
pub use workload::Workload;

/// All that is known of the node and its cgroups at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When the files were read.
    pub time: SystemTime,
    /// The machine as a whole.
    pub machine: Machine,
    /// Every cgroup, parents before children, ordered by path. Removed ones stay for the retention time with
    /// `removed` set.
    pub groups: Vec<GroupView>,
}

/// Everything that the API (gRPC and HTTP) reads from the running agent. The daemon implements it; tests use
/// fixtures.
pub trait AgentState: Send + Sync + 'static {
    /// A reading of the node made now (or shared with a caller that asked within the last few milliseconds).
    fn snapshot(&self) -> Arc<Snapshot>;
    /// What works, what is off and why, and the agent's own use of CPU and memory.
    fn status(&self) -> Status;
    /// Devices and the pods that they are allocated to; empty in mode observe.
    fn devices(&self) -> DevicesView {
        DevicesView::default()
    }
    /// The CPUs that containers have for themselves, and who else ran on them; empty in mode observe.
    fn exclusive_cpus(&self) -> ExclusiveCpusView {
        ExclusiveCpusView::default()
    }
    /// CPUs and NUMA nodes, and which container has what of them; empty in mode observe.
    fn cpu_map(&self) -> CpuMapView {
        CpuMapView::default()
    }
    /// Probes of the managed pods; empty in mode observe.
    fn probes(&self) -> ProbesView {
        ProbesView::default()
    }
    /// Garbage collection of images and dead containers; `None` without a container runtime.
    fn image_gc(&self) -> Option<Arc<dyn ImageGc>> {
        None
    }
    /// Node conditions, signals and eviction decisions; `None` if eviction could not be started.
    fn eviction(&self) -> Option<Arc<dyn EvictionStatus>> {
        None
    }
    /// The name that the container runtime gives itself (`containerd`, `cri-o`); `None` until it has answered
    /// once, or without a runtime.
    fn runtime_name(&self) -> Option<String> {
        None
    }
    /// The cgroups of the node's own processes. Blocks for up to half a second.
    fn system_cgroups(&self) -> SystemCgroups {
        SystemCgroups::default()
    }
    /// Processes and network of the pods of a snapshot, by uid, read now. Blocks.
    fn workloads(&self, snapshot: &Snapshot) -> BTreeMap<String, Workload> {
        let _ = snapshot;
        BTreeMap::new()
    }
    /// The managed pods; empty in mode observe.
    fn pods(&self) -> Vec<Arc<PodView>> {
        Vec::new()
    }
    /// The managed pods and those that cannot start yet because another pod is in their way, for display.
    fn shown_pods(&self) -> Vec<Arc<PodView>> {
        self.pods()
    }
}
