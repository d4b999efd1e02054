//! Eviction and preemption decisions, as shown by `nodewarden explain`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_manifest::Pod;

/// A decision: the readings, the candidates in order, the steps taken and their duration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Sequence number, continued across restarts.
    pub number: u64,
    pub time: Timestamp,
    /// `eviction`, `preemption`.
    pub kind: String,
    /// Whether nothing was done: in mode observe, or in a simulation.
    pub would: bool,
    /// What triggered it: `psi kubepods`, `memory.events`, `timer 40ms`, `simulate`, ….
    pub woken_by: String,
    pub signals: Vec<SignalSeen>,
    /// In the order of eviction; exempt pods at the end.
    pub candidates: Vec<CandidateSeen>,
    pub steps: Vec<DecisionStep>,
    /// The outcome as text.
    pub outcome: String,
}

/// A threshold and the reading compared with it, in bytes, inodes or processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalSeen {
    /// `memory.available`.
    pub signal: String,
    pub available: u64,
    pub capacity: u64,
    pub threshold: u64,
    pub hard: bool,
    /// Whether less is available than the threshold (plus the minimum reclaim while that is being reclaimed).
    pub passed: bool,
    /// Milliseconds since it was first crossed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_for_ms: Option<u64>,
    /// Grace period of a soft threshold in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// A candidate for eviction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateSeen {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub qos: String,
    pub priority: i32,
    /// Usage of the signal's resource in bytes, inodes or processes.
    pub usage: u64,
    /// Its request; if the pod exceeded a limit of its own, that limit.
    pub request: u64,
    pub chosen: bool,
    /// Why it is exempt: `critical`; empty otherwise.
    pub spared: String,
}

/// A step of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStep {
    /// `read`, `rank`, `kill`, `processes gone`, `memory back`, `dead containers removed`, `unused images removed`, ….
    pub what: String,
    /// Microseconds since the decision was woken, and how long it took.
    pub after_us: u64,
    pub took_us: u64,
    /// What it came to; empty when there is nothing to say.
    pub result: String,
}

/// The node's pressure conditions and signals at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PressureView {
    pub conditions: Vec<ConditionSeen>,
    pub signals: Vec<SignalSeen>,
    /// What wakes a look at the node.
    pub watching: Vec<String>,
}

impl CandidateSeen {
    /// `spared` is empty for one that may go.
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
        }
    }

    /// Whether `reference`, a uid, name or namespace/name, is this pod.
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
    /// Conditions by the kubelet's name: whether true, since when, reason and message.
    fn conditions(&self) -> Vec<ConditionSeen>;

    /// Every threshold with what was last read for it; those that could not be read are left out.
    fn signals(&self) -> Vec<SignalSeen> {
        Vec::new()
    }

    /// What triggers a reading of the node besides the timer, for display: `PSI of the node`; with the reason where
    /// a trigger is missing.
    fn watching(&self) -> Vec<String> {
        Vec::new()
    }

    /// The decisions that are kept, newest first.
    fn decisions(&self) -> Vec<std::sync::Arc<Decision>>;

    /// What would be done now if `threshold` replaced the configured one. Reads the node and changes nothing.
    ///
    /// # Errors
    /// `signal` or `threshold` is invalid, or the node cannot be read, as a message for the user.
    async fn simulate(&self, signal: &str, threshold: &str) -> Result<Decision, String>;
}

/// `status.conditions[]` of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionSeen {
    /// `MemoryPressure`.
    pub name: &'static str,
    pub status: bool,
    pub since: Timestamp,
    /// `KubeletHasInsufficientMemory`, as the kubelet says it.
    pub reason: String,
    pub message: String,
}
