//! One pod as the API server has it, slim: a node has up to a thousand of them.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use nodewarden_model::PodPhase;

use super::{PodKey, status_digest};

/// Annotation of a mirror pod: the hash of the manifest that it shows.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is known of one pod at the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownPod {
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`; that of a mirror pod is not the one that its pod has on the node.
    pub uid: Box<str>,
    /// `metadata.generation`; 0 for a server that has none for pods.
    pub generation: i64,
    /// It has a `metadata.deletionTimestamp`.
    pub deleting: bool,
    /// The annotation `kubernetes.io/config.mirror`; `None` for a pod that is no mirror pod.
    pub mirror: Option<Box<str>>,
    /// `status.phase`; `None` if there is none, or one that is not known here.
    pub phase: Option<PodPhase>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `status.conditions`, those of others too.
    pub conditions: Box<[KnownCondition]>,
    /// `status.podIPs`.
    pub ips: Box<[IpAddr]>,
    /// `status.hostIPs`.
    pub host_ips: Box<[IpAddr]>,
    /// Containers that have restarted, and how often; of all kinds.
    pub restarts: Box<[(Box<str>, u32)]>,
    /// [`status_digest`] of its status.
    pub digest: u64,
}

/// One condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCondition {
    /// `type`.
    pub name: Box<str>,
    /// `status`.
    pub status: ConditionStatus,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, or anything else.
    Unknown,
}

impl ConditionStatus {
    /// The status of this word.
    pub fn of(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl KnownPod {
    /// What is kept of a pod of the API.
    pub fn of(pod: &v1::Pod) -> Self {
        let meta = &pod.metadata;
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            generation: meta.generation.unwrap_or(0),
            deleting: meta.deletion_timestamp.is_some(),
            mirror: meta
                .annotations
                .as_ref()
                .and_then(|all| all.get(MIRROR))
                .map(|hash| hash.as_str().into()),
            phase: status.and_then(|status| phase(status.phase.as_deref()?)),
            started: status.and_then(|status| Some(status.start_time.as_ref()?.0)),
            conditions: conditions.iter().map(KnownCondition::of).collect(),
            ips: addresses(status.and_then(|status| status.pod_ips.as_ref()), |own| &own.ip),
            host_ips: addresses(status.and_then(|status| status.host_ips.as_ref()), |own| &own.ip),
            restarts: status.map(restarts).unwrap_or_default(),
            digest: status.map_or(0, status_digest),
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> PodKey {
        PodKey::new(&self.namespace, &self.name)
    }

    /// The condition of this type.
    pub fn condition(&self, name: &str) -> Option<&KnownCondition> {
        self.conditions.iter().find(|condition| *condition.name == *name)
    }

    /// How often the container of this name has restarted, by the status at the API server.
    pub fn restarts_of(&self, container: &str) -> u32 {
        self.restarts.iter().find(|(name, _)| **name == *container).map_or(0, |(_, restarts)| *restarts)
    }
}

impl KnownCondition {
    fn of(condition: &v1::PodCondition) -> Self {
        Self {
            name: condition.type_.as_str().into(),
            status: ConditionStatus::of(&condition.status),
            since: condition.last_transition_time.as_ref().map(|time| time.0),
        }
    }
}

/// Those that can be read.
fn addresses<T>(list: Option<&Vec<T>>, text: impl Fn(&T) -> &str) -> Box<[IpAddr]> {
    list.into_iter().flatten().filter_map(|own| text(own).parse().ok()).collect()
}

fn phase(name: &str) -> Option<PodPhase> {
    let all = [PodPhase::Pending, PodPhase::Running, PodPhase::Succeeded, PodPhase::Failed];
    all.into_iter().find(|phase| phase.name() == name)
}

fn restarts(status: &v1::PodStatus) -> Box<[(Box<str>, u32)]> {
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let all = lists.into_iter().flatten().flatten();
    let restarted = all.filter(|own| own.restart_count > 0);
    restarted.map(|own| (own.name.as_str().into(), own.restart_count.unsigned_abs())).collect()
}
