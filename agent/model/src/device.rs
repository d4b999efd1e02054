//! Devices as they stand: what `nodewarden devices`, the metrics and PodResources show.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// All of them; nothing in mode observe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DevicesView {
    /// By name.
    pub resources: Vec<DeviceResource>,
    /// Resources whose plugin stayed away too long since the agent's start, and when they were dropped.
    pub removed: Vec<(String, SystemTime)>,
    /// What keeps devices from being handed out; empty when nothing does.
    pub problems: Vec<String>,
}

/// One extended resource of the node's status.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceResource {
    pub name: String,
    /// All devices that its plugin lists.
    pub capacity: usize,
    /// The healthy ones among them.
    pub allocatable: usize,
    /// Those that containers have, healthy or not.
    pub allocated: usize,
    /// Time since which its plugin is disconnected; `None` while it is connected.
    pub away_since: Option<SystemTime>,
    /// By id.
    pub devices: Vec<DeviceView>,
}

/// One device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceView {
    pub id: String,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    pub health: &'static str,
    /// NUMA nodes that it names.
    pub numa: Vec<i64>,
    pub owner: Option<DeviceOwner>,
}

/// Who has a device. Several containers of one pod may, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOwner {
    pub uid: String,
    /// Empty for a pod that is not this agent's.
    pub namespace: String,
    pub name: String,
    pub container: String,
}

/// Device ids by NUMA node, -1 for those that name none. A device that names several is under each of them, as in the
/// kubelet's checkpoint (`checkpoint.DevicesPerNUMA`).
pub type DevicesPerNuma = BTreeMap<i64, BTreeSet<String>>;

/// The words of `allocatedResourcesStatus` (KEP-4680).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum Health {
    Healthy,
    Unhealthy,
    /// Its plugin is gone, or does not list it any more.
    Unknown,
}

impl Health {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A device node of the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostDevice {
    pub path: String,
    pub kind: HostDeviceKind,
    pub major: u32,
    pub minor: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostDeviceKind {
    Block,
    Char,
}
