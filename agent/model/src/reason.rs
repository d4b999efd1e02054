//! Reasons in a pod's status, in the kubelet's words. They are compared as values and become text where a
//! status, an event or a metric is written.

use serde::{Deserialize, Serialize};

/// Why a container does not run (`state.waiting.reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::IntoStaticStr)]
pub enum WaitingReason {
    /// Init containers before it have not completed.
    PodInitializing,
    /// Nothing keeps it: it is about to be created.
    ContainerCreating,
    /// It ended, and its back-off is not over.
    CrashLoopBackOff,
    /// The image's name cannot be parsed.
    InvalidImageName,
    /// The image is not on the node, and the pull policy is `Never`.
    ErrImageNeverPull,
    /// The runtime could not say whether it has the image.
    ImageInspectError,
    /// The image could not be pulled for the first time.
    ErrImagePull,
    /// The image could not be pulled more than once in a row.
    ImagePullBackOff,
    /// The runtime refused to create the container.
    CreateContainerError,
    /// The container's part of the manifest cannot be carried out on this node.
    CreateContainerConfigError,
    /// The pod's part of the manifest cannot be carried out on this node.
    CreatePodSandboxError,
    /// The runtime refused to start the container.
    RunContainerError,
    /// Its postStart hook failed.
    PostStartHookError,
}

impl WaitingReason {
    /// As in a status.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Why a container waits, with the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// `state.waiting.reason`.
    pub reason: WaitingReason,
    /// `state.waiting.message`; may be empty.
    pub message: String,
}

/// Why a pod does not run as it should (`status.reason` of a pod that has not failed).
#[derive(Debug, Clone, PartialEq, Eq, Hash, strum::Display)]
pub enum PodReason {
    /// The node has too little of the resource with this name.
    #[strum(to_string = "OutOf{0}")]
    OutOf(String),
    /// `spec.nodeSelector` or the required node affinity does not match this node.
    NodeAffinity,
    /// `spec.nodeName` is another node's.
    NodeName,
    /// A host port is taken.
    NodePorts,
    /// The node has a taint with the effect `NoExecute` that the pod does not tolerate.
    TaintToleration,
    /// The label `kubernetes.io/os` of the pod differs from the node's.
    #[strum(to_string = "PodOSSelectorNodeLabelDoesNotMatch")]
    PodOsSelectorNodeLabelDoesNotMatch,
    /// `spec.os.name` is not `linux`.
    #[strum(to_string = "PodOSNotSupported")]
    PodOsNotSupported,
    /// The machine is about to shut down.
    NodeShutdown,
    /// Conditions of the node exclude the pod.
    Evicted,
    /// The plugin of a device that the pod asks for is not connected.
    DevicePluginNotReady,
    /// CPUs, memory and devices cannot come from the NUMA nodes that the topology manager's policy wants.
    TopologyAffinityError,
    /// Whole cores cannot be given (`full-pcpus-only`).
    #[strum(to_string = "SMTAlignmentError")]
    SmtAlignmentError,
    /// A container of a pod with resources of its own would have no CPU or memory of the pod.
    EmptyPodSharedPoolError,
    /// A device plugin, the devices' checkpoint, or the allocation of CPUs or memory failed.
    UnexpectedAdmissionError,
    /// The container runtime cannot be reached.
    RuntimeNotReady,
    /// The container runtime refused a call.
    RuntimeError,
    /// The pod's cgroup is missing, or could not be limited.
    FailedToCreatePodContainer,
    /// A volume could not be prepared.
    FailedMount,
    /// The sandbox could not be created.
    FailedCreatePodSandBox,
    /// Containers or sandboxes could not be ended.
    FailedKillPod,
    /// The pod's directory could not be removed.
    FailedCleanVolumes,
    /// The pod sets a sysctl that this node does not allow.
    SysctlForbidden,
    /// A pod of the same name is still being ended.
    PredecessorEnding,
    /// A pod of another name runs with the same uid.
    UidInUse,
    /// A pod of the same name runs from a manifest that cannot be read.
    ManifestUnreadable,
}

/// What a pod shows as its reason (`status.reason`): as text one word, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, strum::Display)]
pub enum StatusReason {
    /// There is nothing to report.
    #[default]
    #[strum(to_string = "")]
    None,
    /// It is being ended, since its source no longer has it.
    Terminating,
    /// Something keeps it from running as it should.
    #[strum(to_string = "{0}")]
    Trouble(PodReason),
    /// It was ended before its time, or its source has it as ended; may be empty.
    #[strum(to_string = "{0}")]
    Ended(String),
}

impl StatusReason {
    /// Whether what it names ends by itself: the pod is going, or the container runtime comes back.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Terminating | Self::Trouble(PodReason::RuntimeNotReady | PodReason::RuntimeError)
        )
    }
}

/// How a container ended (`state.terminated.reason`). State files hold it as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, strum::Display, strum::EnumString, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum EndReason {
    /// It exited with code 0.
    Completed,
    /// It exited with another code.
    Error,
    /// A process of it was killed for memory: the kubelet's and containerd's word.
    #[strum(serialize = "OOMKilled")]
    OomKilled,
    /// The runtime does not know.
    #[strum(serialize = "ContainerStatusUnknown")]
    StatusUnknown,
    /// A word of the runtime's own.
    #[strum(default)]
    Other(String),
}

impl From<String> for EndReason {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<EndReason> for String {
    fn from(reason: EndReason) -> Self {
        reason.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_shown_in_the_kubelets_words() {
        assert_eq!(PodReason::OutOf("v.com/gpu".into()).to_string(), "OutOfv.com/gpu");
        assert_eq!(PodReason::PodOsNotSupported.to_string(), "PodOSNotSupported");
        assert_eq!(WaitingReason::CrashLoopBackOff.name(), "CrashLoopBackOff");
        assert_eq!(format!("{}", WaitingReason::ErrImagePull), "ErrImagePull");
    }

    #[test]
    fn a_recorded_end_is_read_back_without_loss() {
        for text in ["Completed", "Error", "OOMKilled", "ContainerStatusUnknown", "StartError", ""] {
            let json = serde_json::to_string(text).unwrap();
            let read: EndReason = serde_json::from_str(&json).unwrap();
            assert_eq!((read.to_string().as_str(), serde_json::to_string(&read).unwrap()), (text, json));
        }
        assert_eq!(EndReason::from("OOMKilled"), EndReason::OomKilled);
        assert_eq!(EndReason::from("StartError"), EndReason::Other("StartError".into()));
    }
}
