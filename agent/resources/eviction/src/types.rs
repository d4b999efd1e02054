//! The plain values that eviction decides on.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_config::Signal;
use nodewarden_manifest::Pod;

/// How much there is of what a signal watches, at one moment: bytes, inodes or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    pub available: u64,
    pub capacity: u64,
}

/// What was read; a signal that could not be read is not in here, and acts on nothing.
pub type Observations = BTreeMap<Signal, Observed>;

/// `status.conditions[].type` of a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
pub enum NodeCondition {
    MemoryPressure,
    DiskPressure,
    #[serde(rename = "PIDPressure")]
    #[strum(serialize = "PIDPressure")]
    PidPressure,
}

impl NodeCondition {
    pub const ALL: [Self; 3] = [Self::MemoryPressure, Self::DiskPressure, Self::PidPressure];

    /// The kubelet's name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What is pressed where this signal is beyond its threshold (kubelet `signalToNodeCondition`).
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

/// Conditions that are true, each with the moment since when. What admission and the return of evicted pods go by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pressure(pub BTreeMap<NodeCondition, Timestamp>);

impl Pressure {
    pub fn has(&self, condition: NodeCondition) -> bool {
        self.0.contains_key(&condition)
    }
}

/// What candidates have to be read for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
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

/// What a pod takes of disks (kubelet `fsStatsRoot`, `fsStatsLogs`, `fsStatsLocalVolumeSource`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodDisk {
    /// Writable layers of its containers.
    pub root: DiskUse,
    pub logs: DiskUse,
    /// `emptyDir` volumes on disk, and what else is in its directory.
    pub volumes: DiskUse,
}

/// A pod that runs, with what it uses as far as it was read: a figure that nobody needs or that cannot be read is
/// `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub pod: Arc<Pod>,
    /// Path of its cgroup below the mounts.
    pub cgroup: String,
    pub started: Timestamp,
    /// Working set in bytes (kubelet `WorkingSetBytes`: usage less inactive file pages).
    pub memory: Option<u64>,
    pub disk: Option<PodDisk>,
    pub processes: Option<u64>,
    /// By name.
    pub containers: BTreeMap<String, ContainerUse>,
    /// In place of the pod's own where its manifest is not known (mode observe): bytes of memory by its `oom_score_adj`.
    pub memory_request: Option<u64>,
}

/// What one container of it uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerUse {
    /// Working set in bytes.
    pub memory: Option<u64>,
    pub root: Option<DiskUse>,
    pub logs: Option<DiskUse>,
}

/// Which of the node's file systems are the same (KEP-4191).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLayout {
    /// Images and containers' layers are on the node's.
    One,
    /// Images and layers are together on another one.
    ImagesApart,
    /// Layers are on the node's, images on another one.
    ContainersOnNode,
    /// Each on its own.
    Three,
}
