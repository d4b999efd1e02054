//! The state of the managed hierarchy.

use std::time::SystemTime;

use nodewarden_manifest::QosClass;

/// State of the hierarchy in manage mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HierarchyStatus {
    /// `cgroupfs` or `systemd`.
    pub driver: String,
    /// Who said so: `the runtime` or `configuration`.
    pub driver_from: String,
    /// Path of the level above all pods.
    pub kubepods: String,
    pub pods: Vec<PodCgroup>,
    /// Pod cgroups that are being removed.
    pub removing: Vec<PodCgroup>,
    /// Paths of pod cgroups that the agent did not create; they are left alone.
    pub foreign: Vec<String>,
    pub last_reconcile: Option<SystemTime>,
    /// Number of limits corrected since start.
    pub corrections: u64,
    /// What is not as it should be now.
    pub problems: Vec<String>,
}

/// One pod's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Unknown for a pod of an earlier agent whose manifest is gone.
    pub qos: Option<QosClass>,
    pub path: String,
    /// Empty when all is well.
    pub problem: String,
}
