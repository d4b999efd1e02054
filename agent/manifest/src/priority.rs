//! Pod priority.

use super::Pod;

/// The built-in priority class of pods that the cluster cannot do without.
pub(crate) const SYSTEM_CLUSTER_CRITICAL: &str = "system-cluster-critical";
/// The built-in priority class of pods that the node cannot do without.
pub(crate) const SYSTEM_NODE_CRITICAL: &str = "system-node-critical";

/// The minimum priority of critical pods (`scheduling.SystemCriticalPriority`).
pub const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Priority of a built-in priority class; `None` for other classes, which only a cluster defines.
pub(super) fn of_class(name: &str) -> Option<i32> {
    match name {
        SYSTEM_CLUSTER_CRITICAL => Some(SYSTEM_CRITICAL_PRIORITY),
        SYSTEM_NODE_CRITICAL => Some(SYSTEM_CRITICAL_PRIORITY + 1000),
        _ => None,
    }
}

impl Pod {
    /// Whether its priority is at least that of a system class (`IsCriticalPodBasedOnPriority`). The kubelet
    /// treats every static pod as critical in admission and eviction, whatever its priority; that rule is
    /// implemented there.
    pub fn is_critical(&self) -> bool {
        self.priority >= SYSTEM_CRITICAL_PRIORITY
    }

    /// Whether the OOM killer chooses it last (the kubelet's `IsNodeCriticalPod`): it is critical and has the
    /// class `system-node-critical`. The priority of that class alone is not enough.
    pub fn is_node_critical(&self) -> bool {
        self.is_critical() && self.spec().priority_class_name.as_deref() == Some(SYSTEM_NODE_CRITICAL)
    }
}
