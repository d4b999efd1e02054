//! Which entries of the journal are events for users of the API, and of which type
//! (`pkg/kubelet/events/event.go`).

use super::Kind;

/// What is as it should be.
const NORMAL: &[&str] = &[
    "CameBack",
    "Created",
    "DeadlineExceeded",
    "Killing",
    "Pulled",
    "Pulling",
    "ResizeCompleted",
    "ResizeStarted",
    "SandboxChanged",
    "Started",
    "VolumeResizeSuccessful",
];

/// Details that only the agent's own journal has: a kubelet reports nothing in these cases, or reports them
/// of the node.
const JOURNAL_ONLY: &[&str] = &[
    "DevicesAllocated",
    "Exited",
    "FailedCleanVolumes",
    "Healthy",
    "ManifestUnreadable",
    "PredecessorEnding",
    "RuntimeError",
    "RuntimeNotReady",
    "StartResumed",
    "Terminated",
    "UidInUse",
    "VolumesSetAside",
];

/// What a kubelet reports of the node, out of the journal's entries that are of no pod. `NodeHas…`,
/// `NodeReady`, `Starting` and `Rebooted` are not here: what writes the node object reports them itself.
const OF_THE_NODE: &[(&str, Kind)] = &[
    ("ContainerGCFailed", Kind::Warning),
    ("EvictionThresholdMet", Kind::Warning),
    ("FailedNodeAllocatableEnforcement", Kind::Warning),
    ("FreeDiskSpaceFailed", Kind::Warning),
    ("ImageGCFailed", Kind::Warning),
    ("InvalidDiskCapacity", Kind::Warning),
    ("NodeAllocatableEnforced", Kind::Normal),
    ("NodeShutdown", Kind::Normal),
];

/// Type of the event of the node that an entry of this reason is; `None` if it is only for the journal.
pub fn of_the_node(reason: &str) -> Option<Kind> {
    OF_THE_NODE.iter().find(|(own, _)| *own == reason).map(|(_, kind)| *kind)
}

/// Type and reason of the event of this reason in the journal; `None` if there is none at the API.
pub fn published(reason: &str) -> Option<(Kind, &str)> {
    if JOURNAL_ONLY.contains(&reason) {
        return None;
    }
    // A container that keeps ending has the same reason, as a warning.
    if reason == "BackOffPullImage" {
        return Some((Kind::Normal, "BackOff"));
    }
    let reason = match reason {
        "Resized" => "ResizeCompleted",
        reason => reason,
    };
    Some((if NORMAL.contains(&reason) { Kind::Normal } else { Kind::Warning }, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_kubelets_types() {
        for reason in ["Pulling", "Pulled", "Created", "Started", "Killing", "SandboxChanged"] {
            assert_eq!(published(reason), Some((Kind::Normal, reason)));
        }
        for reason in [
            "BackOff",
            "ErrImageNeverPull",
            "InspectFailed",
            "Evicted",
            "Failed",
            "FailedCreatePodSandBox",
            "FailedKillPod",
            "FailedMount",
            "FailedPostStartHook",
            "FailedPreStopHook",
            "OutOfcpu",
            "Preempting",
            "ProbeWarning",
            "Unhealthy",
            "UnexpectedAdmissionError",
            "ResizeDeferred",
            "ResizeError",
        ] {
            assert_eq!(published(reason), Some((Kind::Warning, reason)));
        }
        for reason in ["Exited", "RuntimeNotReady", "Terminated"] {
            assert_eq!(published(reason), None, "{reason}");
        }
        assert_eq!(published("Resized"), Some((Kind::Normal, "ResizeCompleted")));
        assert_eq!(published("BackOffPullImage"), Some((Kind::Normal, "BackOff")));
    }

    #[test]
    fn of_the_node_only_what_a_kubelet_reports_and_nothing_twice() {
        for (reason, expected) in [
            ("EvictionThresholdMet", Some(Kind::Warning)),
            ("ImageGCFailed", Some(Kind::Warning)),
            ("ContainerGCFailed", Some(Kind::Warning)),
            ("FreeDiskSpaceFailed", Some(Kind::Warning)),
            ("InvalidDiskCapacity", Some(Kind::Warning)),
            ("FailedNodeAllocatableEnforcement", Some(Kind::Warning)),
            ("NodeAllocatableEnforced", Some(Kind::Normal)),
            ("NodeShutdown", Some(Kind::Normal)),
            ("NodeHasDiskPressure", None),
            ("NodeReady", None),
            ("Starting", None),
            ("Rebooted", None),
            ("Stopping", None),
            ("LimitDeferred", None),
        ] {
            assert_eq!(of_the_node(reason), expected, "{reason}");
        }
    }
}
