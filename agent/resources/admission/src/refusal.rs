//! Why a pod may not start now, in the kubelet's words (pkg/kubelet/lifecycle/predicate.go,
//! `managerImpl.Admit` of pkg/kubelet/eviction).

use nodewarden_eviction::NodeCondition;
use nodewarden_model::PodReason;

/// One reason why a pod may not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `InsufficientResourceError`: CPU in thousandths, everything else in whole units.
    #[error(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    )]
    Insufficient {
        /// Name of the resource.
        resource: String,
        /// What the pod requests.
        requested: i64,
        /// What other pods hold.
        used: i64,
        /// What pods can have together.
        capacity: i64,
    },
    /// `spec.nodeSelector` or the required terms of `spec.affinity.nodeAffinity`.
    #[error("Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")]
    Affinity,
    /// `spec.nodeName` is another node's.
    #[error("Predicate NodeName failed: node(s) didn't match the requested node name")]
    NodeName,
    /// A host port is taken.
    #[error("Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")]
    Ports,
    /// The node has a taint with the effect `NoExecute` that the pod does not tolerate.
    #[error("Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")]
    Taint,
    /// The pod's own label `kubernetes.io/os`.
    #[error("Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")]
    OsLabel,
    /// `spec.os.name` is not `linux`.
    #[error("Failed to admit pod as the OS field doesn't match node OS")]
    Os,
    /// The machine is about to shut down (pkg/kubelet/nodeshutdown `Admit`).
    #[error("Pod was rejected as the node is shutting down.")]
    Shutdown,
    /// Node conditions exclude the pod.
    #[error("The node had condition: [{}]. ", names(.0))]
    Pressure(Vec<NodeCondition>),
}

impl Refusal {
    /// `status.reason` of the pod.
    pub fn reason(&self) -> PodReason {
        match self {
            Self::Insufficient { resource, .. } => PodReason::OutOf(resource.clone()),
            Self::Affinity => PodReason::NodeAffinity,
            Self::NodeName => PodReason::NodeName,
            Self::Ports => PodReason::NodePorts,
            Self::Taint => PodReason::TaintToleration,
            Self::OsLabel => PodReason::PodOsSelectorNodeLabelDoesNotMatch,
            Self::Os => PodReason::PodOsNotSupported,
            Self::Shutdown => PodReason::NodeShutdown,
            Self::Pressure(_) => PodReason::Evicted,
        }
    }

    /// Name and missing amount of an insufficient resource; `None` for other reasons.
    pub fn missing(&self) -> Option<(&str, i64)> {
        match self {
            Self::Insufficient { resource, requested, used, capacity } => {
                Some((resource, requested - (capacity - used)))
            }
            _ => None,
        }
    }
}

fn names(conditions: &[NodeCondition]) -> String {
    conditions.iter().map(|condition| condition.name()).collect::<Vec<_>>().join(" ")
}
