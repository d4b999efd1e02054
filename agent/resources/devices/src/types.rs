//! Plain values shared by the modules of this crate.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_manifest::ContainerKind;
use nodewarden_model::{DevicesPerNuma, Health};

/// One device that a plugin lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The plugin's id of the device.
    pub id: String,
    /// Health according to the plugin's last list.
    pub health: Health,
    /// NUMA nodes of the device; empty if the plugin names none.
    pub numa: BTreeSet<i64>,
}

/// Health of a pod's devices: by container and resource, each device id with its health.
pub type DeviceHealth = BTreeMap<String, BTreeMap<String, Vec<(String, Health)>>>;

/// The devices that a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDemand {
    /// The pod's uid.
    pub uid: String,
    /// Only containers that ask for devices, in the order in which they get them: init containers (with
    /// sidecars), then regular ones.
    pub containers: Vec<ContainerDemand>,
}

/// The devices that one container asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerDemand {
    /// The container's name.
    pub name: String,
    /// Init container, sidecar or regular container.
    pub kind: ContainerKind,
    /// Number of devices by extended resource, from the container's limits.
    pub wanted: BTreeMap<String, usize>,
}

/// The devices of one resource that a container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Device ids by NUMA node.
    pub devices: DevicesPerNuma,
    /// `v1beta1.ContainerAllocateResponse`, encoded as the plugin sent it. `None` for devices that were
    /// recovered from the runtime after a damaged checkpoint: the plugin is asked again.
    pub response: Option<Vec<u8>>,
}

impl Allocation {
    /// All device ids, each once.
    pub fn ids(&self) -> BTreeSet<String> {
        all_ids(&self.devices)
    }
}

/// All device ids, each once.
pub(crate) fn all_ids(devices: &DevicesPerNuma) -> BTreeSet<String> {
    devices.values().flatten().cloned().collect()
}

/// Why a pod gets no devices now. The pod waits and is tried again, because no scheduler would place it
/// elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too few free devices. The kubelet's text of `InsufficientResourceError` and of `devicesToAllocate`,
    /// with the numbers.
    #[error(
        "Node didn't have enough resource: {resource}, requested: {wanted}, free: {free}, capacity: {capacity} \
         ({unhealthy} unhealthy)"
    )]
    Insufficient {
        /// The extended resource.
        resource: String,
        /// Devices that the pod asks for and does not have yet.
        wanted: usize,
        /// Healthy devices that no pod has.
        free: usize,
        /// All devices that the plugin lists.
        capacity: usize,
        /// Listed devices that are not healthy.
        unhealthy: usize,
    },
    /// The resource is known (from the checkpoint, or its plugin's stream has ended), but its plugin is not
    /// connected.
    #[error("the device plugin of {resource} is not connected: waiting for it to register")]
    NotReady {
        /// The extended resource.
        resource: String,
    },
    /// No plugin has ever registered it.
    #[error("no device plugin has registered {resource}")]
    Unknown {
        /// The extended resource.
        resource: String,
    },
}

impl Refusal {
    /// The extended resource that the pod cannot get.
    pub fn resource(&self) -> &str {
        match self {
            Self::Insufficient { resource, .. }
            | Self::NotReady { resource }
            | Self::Unknown { resource } => resource,
        }
    }
}
