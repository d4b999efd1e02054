//! The state of the managed cgroup hierarchy.

use std::time::SystemTime;

use nodewarden_manifest::QosClass;
use nodewarden_manifest::names::is_bytes;

/// State of the hierarchy in mode manage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HierarchyStatus {
    /// The cgroup driver: `cgroupfs` or `systemd`.
    pub driver: String,
    /// What determined the driver: `the runtime` or `configuration`.
    pub driver_from: String,
    /// Path of the level above all pods.
    pub kubepods: String,
    /// The cgroups of the pods that the agent runs.
    pub pods: Vec<PodCgroup>,
    /// Pod cgroups that are being removed.
    pub removing: Vec<PodCgroup>,
    /// Paths of pod cgroups that the agent did not create; they are left alone unless nothing uses them.
    pub foreign: Vec<String>,
    /// When all limits were last compared with their desired values; `None` before the first time.
    pub last_reconcile: Option<SystemTime>,
    /// Number of limits corrected since the agent's start.
    pub corrections: u64,
    /// What the node has and what of it pods can have; empty before the machine was read.
    pub resources: Vec<NodeResource>,
    /// Number of limits that are not lowered now because of pods that the agent does not count.
    pub withheld_limits: u64,
    /// What is not as it should be now, as sentences.
    pub problems: Vec<String>,
}

/// One resource of the node, in the kubelet's name: CPU in thousandths, everything else in whole units
/// (bytes, processes, pods).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResource {
    /// `cpu`, `memory`, `ephemeral-storage`, `hugepages-2Mi`, `pid`, `pods`.
    pub name: String,
    /// What there is.
    pub capacity: u64,
    /// What pods can have together: less what is reserved, and less the hard eviction thresholds.
    pub allocatable: u64,
}

impl NodeResource {
    /// Name of the resource whose amounts are thousandths.
    pub const CPU: &str = "cpu";

    /// Whether the amounts are bytes.
    pub fn is_bytes(&self) -> bool {
        is_bytes(&self.name)
    }
}

/// One pod's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace; empty where only the cgroup is known.
    pub namespace: String,
    /// The pod's name; empty where only the cgroup is known.
    pub name: String,
    /// The pod's QoS class; `None` for a cgroup that is being removed.
    pub qos: Option<QosClass>,
    /// Path of the cgroup.
    pub path: String,
    /// Why it could not be created, limited or removed; empty when there is no problem.
    pub problem: String,
}
