//! The state of devices, as `nodewarden devices`, the metrics and PodResources show it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::DenialCount;

/// All devices that device plugins offer, in mode augment those that the kubelet names; empty in mode
/// observe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DevicesView {
    /// Ordered by name.
    pub resources: Vec<DeviceResource>,
    /// Resources that were dropped since the agent's start because their plugin stayed away too long, and
    /// when.
    pub removed: Vec<(String, SystemTime)>,
    /// What keeps devices from being allocated, as sentences; empty when nothing does.
    pub problems: Vec<String>,
    /// A kubelet gives the devices to containers; whether plugins are connected is not known.
    pub by_kubelet: bool,
    /// Accesses to devices that were not given to the pod.
    pub denials: Vec<DenialCount>,
}

/// One extended resource of the node, as a device plugin offers it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceResource {
    /// The resource's name in manifests: `example.com/gpu`.
    pub name: String,
    /// Number of devices that its plugin lists.
    pub capacity: usize,
    /// Number of healthy devices among them; `None` if the kubelet does not say.
    pub allocatable: Option<usize>,
    /// Number of devices that containers have, healthy or not.
    pub allocated: usize,
    /// Time since which its plugin is disconnected; `None` while it is connected.
    pub away_since: Option<SystemTime>,
    /// Ordered by id.
    pub devices: Vec<DeviceView>,
}

/// One device of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceView {
    /// The plugin's id of the device.
    pub id: String,
    /// `Healthy`, `Unhealthy` or `Unknown` (see [`Health`]).
    pub health: &'static str,
    /// The NUMA nodes that the plugin names for it; empty if it names none.
    pub numa: Vec<i64>,
    /// The container that has it; `None` while it is free.
    pub owner: Option<DeviceOwner>,
    /// Beside a kubelet: the device nodes that the container was given with its devices of this resource.
    /// Which of them is this device, a plugin does not say.
    pub nodes: Vec<String>,
    /// Beside a kubelet: why the nodes are not known, or which of them the container has lost; empty for
    /// neither.
    pub problem: String,
}

/// The container that has a device. Several containers of one pod may have it, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOwner {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace; empty if the agent does not know a pod with this uid.
    pub namespace: String,
    /// The pod's name; empty if the agent does not know a pod with this uid.
    pub name: String,
    /// The container's name.
    pub container: String,
}

/// Device ids by NUMA node, -1 for devices without one. A device with several NUMA nodes is under each of
/// them, as in the kubelet's checkpoint (`checkpoint.DevicesPerNUMA`).
pub type DevicesPerNuma = BTreeMap<i64, BTreeSet<String>>;

/// The health of a device, in the words of `allocatedResourcesStatus` (KEP-4680).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum Health {
    /// The plugin reports it healthy; only such devices are allocated.
    Healthy,
    /// The plugin reports it unhealthy.
    Unhealthy,
    /// Its plugin is gone, or does not list it any more.
    Unknown,
}

impl Health {
    /// The word in the pod's status: `Healthy`, `Unhealthy` or `Unknown`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A device node of the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostDevice {
    /// Its path on the machine: `/dev/fuse`.
    pub path: String,
    /// Whether it is a block or a character device.
    pub kind: HostDeviceKind,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
}

/// The type of a device node; with the two numbers it identifies a device to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostDeviceKind {
    /// A block device (`b` in the rules of the v1 controller).
    Block,
    /// A character device (`c`).
    Char,
}
