//! Node conditions in the kubelet's words (pkg/kubelet/nodestatus/setters.go).

use jiff::Timestamp;

use crate::{NodeCondition, Pressure};
use nodewarden_model::ConditionSeen;

/// Reason and message of a condition.
pub fn words(condition: NodeCondition, status: bool) -> (&'static str, &'static str) {
    match (condition, status) {
        (NodeCondition::MemoryPressure, true) => {
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
        }
        (NodeCondition::MemoryPressure, false) => {
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")
        }
        (NodeCondition::DiskPressure, true) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        (NodeCondition::DiskPressure, false) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        (NodeCondition::PidPressure, true) => {
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available")
        }
        (NodeCondition::PidPressure, false) => {
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available")
        }
    }
}

/// Reason of the event of a condition that has changed.
pub fn event(condition: NodeCondition, status: bool) -> &'static str {
    match (condition, status) {
        (NodeCondition::MemoryPressure, true) => "NodeHasInsufficientMemory",
        (NodeCondition::MemoryPressure, false) => "NodeHasSufficientMemory",
        (NodeCondition::DiskPressure, true) => "NodeHasDiskPressure",
        (NodeCondition::DiskPressure, false) => "NodeHasNoDiskPressure",
        (NodeCondition::PidPressure, true) => "NodeHasInsufficientPID",
        (NodeCondition::PidPressure, false) => "NodeHasSufficientPID",
    }
}

/// The state of every condition. `ended` returns since when a condition is false.
pub fn statuses(pressure: &Pressure, ended: impl Fn(NodeCondition) -> Timestamp) -> Vec<ConditionSeen> {
    let one = |condition: NodeCondition| {
        let status = pressure.has(condition);
        let (reason, message) = words(condition, status);
        ConditionSeen {
            name: condition.name(),
            status,
            since: pressure.0.get(&condition).copied().unwrap_or_else(|| ended(condition)),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    };
    NodeCondition::ALL.into_iter().map(one).collect()
}
