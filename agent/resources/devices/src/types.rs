//! What the parts of this room share: plain values.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_manifest::ContainerKind;
pub use nodewarden_model::DevicesPerNuma;
use nodewarden_model::Health;

/// One device of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub id: String,
    pub health: Health,
    /// NUMA nodes that it names; empty for none.
    pub numa: BTreeSet<i64>,
}

/// Health of a pod's devices: by container and resource, each id.
pub type DeviceHealth = BTreeMap<String, BTreeMap<String, Vec<(String, Health)>>>;

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDemand {
    pub uid: String,
    /// In the order in which they are given devices: init containers (sidecars among them), then the ordinary ones. Only
    /// those that ask for any.
    pub containers: Vec<ContainerDemand>,
}

/// What one container asks for: extended resources of its limits, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerDemand {
    pub name: String,
    pub kind: ContainerKind,
    pub wanted: BTreeMap<String, usize>,
}

/// Devices of one resource that a container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub devices: DevicesPerNuma,
    /// `v1beta1.ContainerAllocateResponse`, encoded as the plugin sent it. `None` for devices that were found at the
    /// runtime after a damaged checkpoint: the plugin is asked again.
    pub response: Option<Vec<u8>>,
}

impl Allocation {
    /// Every id once.
    pub fn ids(&self) -> BTreeSet<String> {
        self.devices.values().flatten().cloned().collect()
    }
}

/// Why a pod gets no devices now. It waits and is tried again: no scheduler would send it elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kubelet's words of its `InsufficientResourceError` and of `devicesToAllocate`, with the numbers.
    #[error(
        "Node didn't have enough resource: {resource}, requested: {wanted}, free: {free}, capacity: {capacity} \
         ({unhealthy} unhealthy)"
    )]
    Insufficient { resource: String, wanted: usize, free: usize, capacity: usize, unhealthy: usize },
    /// It is known (from the checkpoint, or its stream has ended), and its plugin is not back.
    #[error("the device plugin of {resource} is not connected: waiting for it to register")]
    NotReady { resource: String },
    /// No plugin has ever registered it.
    #[error("no device plugin has registered {resource}")]
    Unknown { resource: String },
}

impl Refusal {
    pub fn resource(&self) -> &str {
        match self {
            Self::Insufficient { resource, .. }
            | Self::NotReady { resource }
            | Self::Unknown { resource } => resource,
        }
    }
}
