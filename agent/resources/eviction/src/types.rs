//! Plain values that eviction decides on.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_config::Signal;
use nodewarden_manifest::Pod;

/// Reading of a signal at one moment, in bytes, inodes or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    pub available: u64,
    pub capacity: u64,
}

/// Readings by signal; a signal that could not be read is missing, and nothing is done for it.
pub type Observations = BTreeMap<Signal, Observed>;

/// Type of a node condition that eviction sets (`status.conditions[].type`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
pub enum NodeCondition {
    /// A memory signal is beyond its threshold.
    MemoryPressure,
    /// A signal of disk space or inodes is beyond its threshold.
    DiskPressure,
    /// `pid.available` is beyond its threshold.
    #[serde(rename = "PIDPressure")]
    #[strum(serialize = "PIDPressure")]
    PidPressure,
}

impl NodeCondition {
    /// Every condition, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::MemoryPressure, Self::DiskPressure, Self::PidPressure];

    /// The kubelet's name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The condition that a signal beyond its threshold sets (kubelet `signalToNodeCondition`).
    pub fn of(signal: Signal) -> Self {
        match signal {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Self::MemoryPressure,
            Signal::PidAvailable => Self::PidPressure,
            Signal::NodeFsAvailable
            | Signal::NodeFsInodesFree
            | Signal::ImageFsAvailable
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree => Self::DiskPressure,
        }
    }
}

/// The conditions that are true, each with its start. Admission and the restart of evicted pods depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pressure(pub BTreeMap<NodeCondition, Timestamp>);

impl Pressure {
    /// Whether the condition is true.
    pub fn has(&self, condition: NodeCondition) -> bool {
        self.0.contains_key(&condition)
    }
}

/// The figures that have to be read of each candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequiredStats {
    pub memory: bool,
    pub disk: bool,
    pub processes: bool,
}

/// Bytes and inodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub bytes: u64,
    pub inodes: u64,
}

/// Disk use of a pod by part (kubelet `fsStatsRoot`, `fsStatsLogs`, `fsStatsLocalVolumeSource`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodDisk {
    /// Writable layers of the containers.
    pub root: DiskUse,
    pub logs: DiskUse,
    /// `emptyDir` volumes on disk, and everything else in the pod's directory.
    pub volumes: DiskUse,
}

/// A running pod and what it uses. A figure that was not required or could not be read is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub pod: Arc<Pod>,
    /// Path of the pod's cgroup, relative to the mounts.
    pub cgroup: String,
    pub started: Timestamp,
    /// Working set in bytes (kubelet `WorkingSetBytes`: usage less inactive file pages).
    pub memory: Option<u64>,
    pub disk: Option<PodDisk>,
    pub processes: Option<u64>,
    /// By container name.
    pub containers: BTreeMap<String, ContainerUse>,
    /// Memory request in bytes, derived from `oom_score_adj`, where the manifest is not known (mode observe).
    /// Replaces the request of `pod`.
    pub memory_request: Option<u64>,
}

/// What one container uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerUse {
    /// Working set in bytes.
    pub memory: Option<u64>,
    pub root: Option<DiskUse>,
    pub logs: Option<DiskUse>,
}

/// Which of `nodefs`, `imagefs` and `containerfs` are the same file system (KEP-4191).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLayout {
    /// All three are one.
    One,
    /// Images and writable layers are together on a file system other than `nodefs`.
    ImagesApart,
    /// Writable layers are on `nodefs`, images on another file system.
    ContainersOnNode,
    /// Each is a file system of its own.
    Three,
}
