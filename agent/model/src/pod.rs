//! The state of a managed pod, as shown by `nodewarden pods` and `/pods`, in the kubelet's terms (v1 PodStatus).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{EndReason, Health};
use nodewarden_manifest::{ContainerKind, Pod};

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumIter, strum::IntoStaticStr)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl PodPhase {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodView {
    /// What runs, with the resources that it has now (an in-place resize changes them).
    pub pod: Arc<Pod>,
    /// Path of the manifest.
    pub origin: String,
    pub phase: PodPhase,
    /// One word, empty when all is well: `Terminating`, `CgroupNotReady`, `RuntimeNotReady`, ….
    pub reason: String,
    pub message: String,
    /// When the pod was accepted.
    pub started: Timestamp,
    /// Since when it is being ended.
    pub terminating: Option<Timestamp>,
    /// Empty until the sandbox is there; the node's own for `hostNetwork`.
    pub ips: Vec<IpAddr>,
    pub sandbox_id: String,
    /// In the manifest's order: init containers (sidecars among them) and then the regular ones.
    pub containers: Vec<ContainerView>,
    /// Why the pod does not have the resources that it should have; none when it has them.
    pub resize: Option<ResizePending>,
    /// Why the pod was evicted or preempted; none when it was not, or has started again since.
    pub evicted: Option<EvictionCause>,
}

impl PodView {
    /// The pod is being ended because it was evicted or preempted, or has ended for that and has not started
    /// again.
    pub fn is_evicted_or_preempted(&self) -> bool {
        self.evicted.is_some()
            && (self.terminating.is_some() || matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded))
    }
}

/// Why a pod was evicted or preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    /// The node was low on a resource.
    NodePressure,
    /// The pod passed one of its own limits of local storage (kubelet `localStorageEviction`).
    OwnLimit,
    /// A critical pod needed its resources.
    Preemption,
}

/// Why a pod does not have the resources that it should have (KEP-1287, condition `PodResizePending`). Shown
/// as reason and message with a colon between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResizePending {
    /// Not now; it is tried again.
    Deferred(String),
    /// The node does not have as much even without other pods.
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

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerView {
    pub name: String,
    pub kind: ContainerKind,
    /// As the manifest names it, and as the runtime does.
    pub image: String,
    pub image_id: String,
    /// The newest one's; empty when there is none yet.
    pub id: String,
    pub state: ContainerState,
    /// How the one before ended.
    pub last: Option<Ended>,
    /// How often it was started again.
    pub restarts: u32,
    /// Started, and its readiness probe, if it has one, succeeds. An init container: it is done.
    pub ready: bool,
    /// Running, its postStart hook is done, and its startup probe, if it has one, has succeeded.
    pub started: bool,
    /// What device plugins gave it: by resource, each device with its health.
    pub devices: BTreeMap<String, Vec<(String, Health)>>,
    /// The newest process of this container that the kernel killed for memory, PID 1 or not.
    pub oom: Option<OomVictim>,
}

/// `status.containerStatuses[].state`.
#[derive(Debug, Clone, PartialEq)]
pub enum ContainerState {
    /// `PodInitializing`, `ContainerCreating`, `CrashLoopBackOff`, `ErrImagePull`, `ImagePullBackOff`, ….
    Waiting {
        reason: String,
        message: String,
    },
    Running {
        since: Timestamp,
    },
    Terminated(Ended),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    pub id: String,
    pub exit_code: i32,
    /// 0 when it exited itself.
    pub signal: i32,
    pub reason: EndReason,
    /// The termination message.
    pub message: String,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    /// The process that the kernel killed for memory during this run, if any.
    pub oom: Option<OomVictim>,
}

/// A process that the kernel killed for memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomVictim {
    pub time: Timestamp,
    pub pid: u32,
    pub command: String,
}
