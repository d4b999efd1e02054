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

/// Bytes and inodes of a part of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUse {
    pub bytes: u64,
    pub inodes: u64,
    /// Whether this is everything. Otherwise the figures are lower bounds.
    pub complete: bool,
    /// It is not everything, and counting again found no more: some of it cannot be read.
    pub uncountable: bool,
    /// Device number of the file system; `None` if it is not known or there are several.
    pub device: Option<u64>,
}

/// Nothing, completely counted.
impl Default for DiskUse {
    fn default() -> Self {
        Self { bytes: 0, inodes: 0, complete: true, uncountable: false, device: None }
    }
}

impl DiskUse {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { bytes: 0, inodes: 0, complete: false, uncountable: false, device: None };

    /// Whether counting further would change nothing: it is everything, or the rest cannot be counted.
    pub fn is_settled(&self) -> bool {
        self.complete || self.uncountable
    }

    /// The larger of this and of what was found later: complete only if that is not more.
    pub fn at_least(self, other: Self) -> Self {
        let is_more = other.bytes > self.bytes || other.inodes > self.inodes;
        let complete = self.complete && !is_more;
        Self {
            bytes: self.bytes.max(other.bytes),
            inodes: self.inodes.max(other.inodes),
            complete,
            uncountable: !complete && (self.uncountable && !is_more || other.uncountable),
            device: self.device.or(other.device),
        }
    }

    /// Adds another part.
    pub fn add(&mut self, other: Self) {
        let is_nothing = |own: &Self| *own == Self::default();
        self.device = match () {
            () if is_nothing(&other) => self.device,
            () if is_nothing(self) => other.device,
            () => self.device.filter(|device| other.device == Some(*device)),
        };
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.inodes = self.inodes.saturating_add(other.inodes);
        let is_settled = self.is_settled() && other.is_settled();
        self.complete &= other.complete;
        self.uncountable = is_settled && !self.complete;
    }
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

/// The file system that a disk signal measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedOf {
    /// Its device number.
    pub device: u64,
    /// Bytes or inodes in use on it, by all users.
    pub used: u64,
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
