//! What is reported of the node as events, with the kubelet's reasons.

use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};

use super::conditions::READY;

/// An event of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// The kubelet's reason.
    pub reason: &'static str,
    /// What users read.
    pub message: String,
    /// Of type Warning instead of Normal.
    pub warning: bool,
}

/// The reasons of a condition that has become true or false (`recordNodeStatusEvent`).
const REASONS: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    ("DiskPressure", "NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    ("PIDPressure", "NodeHasInsufficientPID", "NodeHasSufficientPID"),
    (READY, "NodeReady", "NodeNotReady"),
];

/// The events of a change from one status to another.
pub fn events(node: &str, known: &NodeStatus, desired: &NodeStatus) -> Vec<NodeEvent> {
    let status = |status: &NodeStatus, kind: &str| {
        let found = status.conditions.iter().flatten().find(|c: &&NodeCondition| c.type_ == kind);
        found.map(|condition| condition.status.clone())
    };
    let mut events = Vec::new();
    for (kind, yes, no) in REASONS {
        let (before, now) = (status(known, kind), status(desired, kind));
        if before == now {
            continue;
        }
        let reason = match now.as_deref() {
            Some("True") => yes,
            Some(_) => no,
            None => continue,
        };
        events.push(NodeEvent {
            reason,
            message: format!("Node {node} status is now: {reason}"),
            warning: false,
        });
    }
    let boot = |status: &NodeStatus| {
        status.node_info.as_ref().map(|info| info.boot_id.clone()).filter(|boot| !boot.is_empty())
    };
    if let (Some(before), Some(now)) = (boot(known), boot(desired))
        && before != now
    {
        let message = format!("Node {node} has been rebooted, boot id: {now}");
        events.push(NodeEvent { reason: "Rebooted", message, warning: true });
    }
    events
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::facts::{NodeFacts, Pressures, Readings, SystemFacts};
    use super::super::fixture::{facts, readings};
    use super::super::status::desired;
    use super::*;

    #[test]
    fn each_change_is_an_event() {
        let now = Timestamp::UNIX_EPOCH;
        let reasons = |known: &NodeStatus, desired: &NodeStatus| -> Vec<&str> {
            events("n", known, desired).into_iter().map(|event| event.reason).collect()
        };
        let new = desired(&facts(), &readings(), &NodeStatus::default(), now);
        assert_eq!(
            reasons(&NodeStatus::default(), &new),
            ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
        );
        assert!(reasons(&new, &new).is_empty());
        let pressed = Readings {
            pressure: Pressures { disk: Some(now), ..Pressures::default() },
            shutting_down: true,
            ..readings()
        };
        let system = SystemFacts { boot_id: "other".into(), ..facts().system };
        let changed = desired(&NodeFacts { system, ..facts() }, &pressed, &new, now);
        assert_eq!(reasons(&new, &changed), ["NodeHasDiskPressure", "NodeNotReady", "Rebooted"]);
    }
}
