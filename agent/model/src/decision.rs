//! Eviction and preemption decisions, as `nodewarden explain` shows them, and the trait by which the API
//! reads the node's pressure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_manifest::Pod;

/// An eviction or preemption: the readings, the candidates in order, the steps taken and their duration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Sequence number, continued across restarts of the agent; 0 for a simulation, which is not kept.
    pub number: u64,
    /// When the decision was woken.
    pub time: Timestamp,
    /// `eviction` or `preemption`.
    pub kind: String,
    /// Whether nothing was done: in mode observe, or in a simulation.
    pub would: bool,
    /// What triggered it: `psi kubepods`, `memory.events`, `timer 40ms`, `simulate`, `admission of shop/web`,
    /// ….
    pub woken_by: String,
    /// The readings that the decision is based on, each with its threshold.
    pub signals: Vec<SignalSeen>,
    /// In the order in which they would be evicted; exempt pods at the end.
    pub candidates: Vec<CandidateSeen>,
    /// What was done, in the order in which it began.
    pub steps: Vec<DecisionStep>,
    /// What came of it, as a sentence without a full stop: `evicted shop/cart; its memory is back`.
    pub outcome: String,
}

/// A threshold and the reading compared with it, in bytes, inodes or processes (in millicores for the
/// resource `cpu` of a preemption).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalSeen {
    /// The kubelet's name of the signal (`memory.available`), or of the missing resource in a preemption.
    pub signal: String,
    /// What was available when it was read.
    pub available: u64,
    /// The total of which `available` is a part.
    pub capacity: u64,
    /// The configured amount below which the signal is crossed; for a preemption the pod's request.
    pub threshold: u64,
    /// Whether it is a hard threshold, which is acted on at once; a soft one has a grace period.
    pub hard: bool,
    /// Whether less is available than the threshold (plus the minimum reclaim while that is being reclaimed).
    pub passed: bool,
    /// Milliseconds since it was first crossed; `None` while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_for_ms: Option<u64>,
    /// Grace period of a soft threshold in milliseconds; `None` for a hard one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// A pod that was considered for eviction or preemption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateSeen {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's QoS class: `Guaranteed`, `Burstable` or `BestEffort`.
    pub qos: String,
    /// The pod's priority (`spec.priority`).
    pub priority: i32,
    /// Usage of the signal's resource in bytes, inodes or processes.
    pub usage: u64,
    /// The pod's request of that resource; if the pod exceeded a limit of its own, that limit.
    pub request: u64,
    /// Whether this pod was evicted or preempted (or would have been).
    pub chosen: bool,
    /// Why it is exempt: `critical`; empty if it is not.
    pub spared: String,
    /// `usage` is a lower bound: not everything is counted yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A step of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStep {
    /// `read`, `rank`, `kill`, `processes gone`, `memory back`, `dead containers removed`, `unused images
    /// removed`, ….
    pub what: String,
    /// Microseconds from the trigger of the decision to the begin of the step.
    pub after_us: u64,
    /// Duration of the step in microseconds.
    pub took_us: u64,
    /// What the step achieved or found: `4 processes`; empty when there is nothing to report.
    pub result: String,
}

/// The node's pressure conditions and signals at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PressureView {
    /// The node conditions, pressed or not.
    pub conditions: Vec<ConditionSeen>,
    /// Every threshold with its last reading; see [`EvictionStatus::signals`].
    pub signals: Vec<SignalSeen>,
    /// What triggers a reading of the node; see [`EvictionStatus::watching`].
    pub watching: Vec<String>,
}

impl CandidateSeen {
    /// A candidate with what `pod` uses and requests of the resource. `spared` is empty for a pod that may be
    /// evicted.
    pub fn new(pod: &Pod, (usage, request): (u64, u64), chosen: bool, spared: &str) -> Self {
        Self {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            qos: pod.qos.to_string(),
            priority: pod.priority,
            usage,
            request,
            chosen,
            spared: spared.to_owned(),
            incomplete: false,
        }
    }

    /// Whether `reference`, a uid, a name or namespace/name, means this pod.
    pub fn is(&self, reference: &str) -> bool {
        match reference.split_once('/') {
            Some((namespace, name)) => self.namespace == namespace && self.name == name,
            None => self.uid == reference || self.name == reference,
        }
    }
}

impl PressureView {
    /// Reads the present state.
    pub fn of(eviction: &dyn EvictionStatus) -> Self {
        Self { conditions: eviction.conditions(), signals: eviction.signals(), watching: eviction.watching() }
    }
}

/// Node conditions, eviction signals and decisions of the running agent.
#[async_trait::async_trait]
pub trait EvictionStatus: Send + Sync + 'static {
    /// Every node condition that the agent maintains, whether it holds or not.
    fn conditions(&self) -> Vec<ConditionSeen>;

    /// Every threshold with what was last read for it; those that could not be read are left out.
    fn signals(&self) -> Vec<SignalSeen> {
        Vec::new()
    }

    /// What triggers a reading of the node besides the timer, for display: `PSI of the node`; with the reason
    /// where a trigger is missing.
    fn watching(&self) -> Vec<String> {
        Vec::new()
    }

    /// What pods use on disk, as counted last; nothing is counted unless this is called. The first answer is
    /// empty, and what is counted later is in the answers from then on.
    fn disk_use(&self) -> std::sync::Arc<crate::DiskView> {
        std::sync::Arc::default()
    }

    /// The decisions that are kept, newest first.
    fn decisions(&self) -> Vec<std::sync::Arc<Decision>>;

    /// What would be done now if `threshold` replaced the configured one. Reads the node and changes nothing.
    ///
    /// # Errors
    /// `signal` or `threshold` is invalid, or the node cannot be read, as a message for the user.
    async fn simulate(&self, signal: &str, threshold: &str) -> Result<Decision, String>;
}

/// One of `status.conditions[]` of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionSeen {
    /// The condition's type: `MemoryPressure`, `DiskPressure` or `PIDPressure`.
    pub name: &'static str,
    /// Whether the condition holds.
    pub status: bool,
    /// When `status` last changed (`lastTransitionTime`).
    pub since: Timestamp,
    /// The kubelet's reason: `KubeletHasInsufficientMemory`.
    pub reason: String,
    /// The kubelet's message: `kubelet has insufficient memory available`.
    pub message: String,
}
