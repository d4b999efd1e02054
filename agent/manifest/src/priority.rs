//! Priority: who goes first and who goes last.

use super::Pod;

/// `system-cluster-critical`.
pub const SYSTEM_CLUSTER_CRITICAL: &str = "system-cluster-critical";
/// `system-node-critical`.
pub const SYSTEM_NODE_CRITICAL: &str = "system-node-critical";

/// From here up a pod is critical (`scheduling.SystemCriticalPriority`).
pub const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Priority of the classes that every cluster has; `None` for one that only a cluster knows.
pub(super) fn of_class(name: &str) -> Option<i32> {
    match name {
        SYSTEM_CLUSTER_CRITICAL => Some(SYSTEM_CRITICAL_PRIORITY),
        SYSTEM_NODE_CRITICAL => Some(SYSTEM_CRITICAL_PRIORITY + 1000),
        _ => None,
    }
}

impl Pod {
    /// Whether its priority is a system class's or higher (`IsCriticalPodBasedOnPriority`). The kubelet treats every
    /// static pod as critical in admission and eviction, whatever its priority: that is for those rooms to add.
    pub fn is_critical(&self) -> bool {
        self.priority >= SYSTEM_CRITICAL_PRIORITY
    }

    /// Whether the OOM killer takes it last (the kubelet's `IsNodeCriticalPod`): it is critical and of the class
    /// `system-node-critical`. The priority of that class alone does not do it.
    pub fn is_node_critical(&self) -> bool {
        self.is_critical() && self.spec.priority_class_name.as_deref() == Some(SYSTEM_NODE_CRITICAL)
    }
}
