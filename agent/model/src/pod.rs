//! The state of a managed pod, as shown by `nodewarden pods` and `/pods`, in the kubelet's terms (v1
//! PodStatus).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{EndReason, Health, Origin, StatusReason, WaitingReason};
use nodewarden_manifest::{ContainerKind, Pod, Resources};

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumIter, strum::IntoStaticStr)]
pub enum PodPhase {
    /// Accepted; not every container has been started yet.
    Pending,
    /// At least one container runs, starts or restarts.
    Running,
    /// All containers have ended with exit code 0 and will not be restarted.
    Succeeded,
    /// All containers have ended, at least one of them with an error, or the pod was evicted or refused.
    Failed,
}

impl PodPhase {
    /// The word in `status.phase`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One managed pod and its containers.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// The pod as it runs, with the resources that it has now (an in-place resize changes them).
    pub pod: Arc<Pod>,
    /// Where its source has it.
    pub origin: Origin,
    /// `status.phase`.
    pub phase: PodPhase,
    /// `status.reason`.
    pub reason: StatusReason,
    /// The explanation of `reason`; empty if there is none.
    pub message: String,
    /// When the pod was accepted (`status.startTime`).
    pub started: Timestamp,
    /// Since when it is being terminated; `None` while it is not.
    pub terminating: Option<Timestamp>,
    /// Empty until the sandbox exists; the node's own for `hostNetwork`.
    pub ips: Vec<IpAddr>,
    /// The runtime's id of the newest sandbox; empty until there is one.
    pub sandbox_id: String,
    /// In the manifest's order: init containers (sidecars among them), then the regular ones.
    pub containers: Vec<ContainerView>,
    /// Why the pod does not have the resources that its manifest requests; `None` if it has them.
    pub resize: Option<ResizePending>,
    /// Its containers are being given other resources; `None` when they have what they should have, or wait
    /// for room.
    pub resizing: Option<ResizeInProgress>,
    /// Why the pod was ended before its time; `None` if it was not, or has started again since.
    pub evicted: Option<EvictionCause>,
    /// An earlier agent ran the pod, and the runtime has not said yet what it has of it: what is shown is
    /// older.
    pub unseen: bool,
    /// A pod of the API server that is being deleted, and nothing of which is left on the node: neither
    /// containers nor volumes. Its phase is Succeeded or Failed.
    pub ended: bool,
    /// What the API server knows of it; `None` for pods of manifests.
    pub api: Option<Arc<ApiState>>,
}

/// What only the API server knows of a pod, as far as the pod's status depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiState {
    /// `metadata.generation` of the spec that the agent acts on; API servers before 1.33 have none.
    pub generation: Option<i64>,
    /// `spec.readinessGates`, with the conditions that others have set.
    pub gates: Vec<ReadinessGate>,
}

/// A condition that others set and without which a pod is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessGate {
    /// Type of the condition.
    pub condition: String,
    /// `True`, `False` or `Unknown`; `None` if the pod does not have the condition.
    pub status: Option<String>,
}

impl PodView {
    /// Whether the pod is being terminated before its time (evicted, preempted, rejected, …), or has ended
    /// for such a reason and has not started again.
    pub fn is_evicted_or_preempted(&self) -> bool {
        self.evicted.is_some()
            && (self.terminating.is_some() || matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded))
    }
}

/// Why a pod was ended before its time, or never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    /// The node was low on a resource.
    NodePressure,
    /// The pod exceeded one of its own limits of local storage (kubelet `localStorageEviction`).
    OwnLimit,
    /// A critical pod needed its resources.
    Preemption,
    /// The node shuts down.
    Shutdown,
    /// Anything that is no disruption (kubelet: no condition `DisruptionTarget`): it was rejected at
    /// admission, was active for longer than its deadline, or the API server has it as failed.
    Other,
}

/// Why a pod does not have the resources that its manifest requests (KEP-1287, condition `PodResizePending`).
/// Displayed as reason and message with a colon between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResizePending {
    /// Not possible now; it is tried again.
    Deferred(String),
    /// Never possible: the node does not have as much even without other pods.
    Infeasible(String),
}

impl ResizePending {
    /// The condition's reason (kubelet `PodReasonDeferred`, `PodReasonInfeasible`).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Deferred(_) => "Deferred",
            Self::Infeasible(_) => "Infeasible",
        }
    }

    /// The condition's message.
    pub fn message(&self) -> &str {
        match self {
            Self::Deferred(message) | Self::Infeasible(message) => message,
        }
    }
}

impl fmt::Display for ResizePending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason(), self.message())
    }
}

/// A pod's containers are being given the resources that they were admitted with (KEP-1287, condition
/// `PodResizeInProgress`). Displayed as `InProgress`, or as reason and message with a colon between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResizeInProgress {
    /// Why it could not be done when it was tried last (the condition's reason `Error`, its message); it is
    /// tried again.
    pub error: Option<String>,
}

impl ResizeInProgress {
    /// The condition's reason (kubelet `PodReasonError`); `None` as long as nothing has failed.
    pub fn reason(&self) -> Option<&'static str> {
        self.error.as_ref().map(|_| "Error")
    }
}

impl fmt::Display for ResizeInProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "Error: {error}"),
            None => f.write_str("InProgress"),
        }
    }
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerView {
    /// The container's name in the manifest.
    pub name: String,
    /// Whether it is an init container, a sidecar or a regular one.
    pub kind: ContainerKind,
    /// The image as the manifest names it.
    pub image: String,
    /// The image as the runtime identifies it; empty until the runtime reports it.
    pub image_id: String,
    /// The runtime's id of the newest container; empty if there is none yet.
    pub id: String,
    /// The state of the newest container.
    pub state: ContainerState,
    /// How the previous container ended; `None` if there was none.
    pub last: Option<Box<Ended>>,
    /// How often it was restarted.
    pub restarts: u32,
    /// Whether it is started, and its readiness probe, if it has one, succeeds; for an init container,
    /// whether it has completed.
    pub ready: bool,
    /// Whether it runs, its postStart hook has completed, and its startup probe, if it has one, has
    /// succeeded.
    pub started: bool,
    /// The resources that the runtime was last given for it, which a resize has not changed yet; `None` if it
    /// does not run.
    pub resources: Option<Arc<Resources>>,
    /// What device plugins allocated to it: for each resource, the devices with their health.
    pub devices: BTreeMap<String, Vec<(String, Health)>>,
    /// The process of this container that the OOM killer killed last, PID 1 or not; `None` if there was none.
    pub oom: Option<Box<OomVictim>>,
}

/// `status.containerStatuses[].state`.
#[derive(Debug, Clone, PartialEq)]
pub enum ContainerState {
    /// There is no running container, and one is expected.
    Waiting {
        /// Why it does not run.
        reason: WaitingReason,
        /// The explanation of the reason; may be empty.
        message: String,
    },
    /// The container runs.
    Running {
        /// When it started.
        since: Timestamp,
    },
    /// The container has ended and is not restarted.
    Terminated(Box<Ended>),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The runtime's id of the container.
    pub id: String,
    /// The exit code of its main process; 128 + signal number if a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it, as far as the exit code shows it (128 + number); 0 if there was none.
    pub signal: i32,
    /// `Completed`, `Error`, `OOMKilled`, `ContainerStatusUnknown` or the runtime's own word.
    pub reason: EndReason,
    /// The termination message.
    pub message: String,
    /// When it had started; `None` if that is unknown.
    pub started: Option<Timestamp>,
    /// When it ended; `None` if that is unknown.
    pub finished: Option<Timestamp>,
    /// The process that the OOM killer killed in this container, if any.
    pub oom: Option<OomVictim>,
}

/// A process that the kernel's OOM killer killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomVictim {
    /// When it was killed.
    pub time: Timestamp,
    /// Its pid in the machine's pid namespace.
    pub pid: u32,
    /// Its command name (at most 15 bytes, as the kernel keeps it).
    pub command: String,
}
