//! A pod's `status`, put together.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodewarden_manifest::ContainerKind;
use nodewarden_model::{PodPhase, PodView};

use super::NodeFacts;
use super::conditions::conditions;
use super::containers::{Floor, container_status};
use super::transitions::{Transitions, second};
use crate::known_pods::{ConditionStatus, KnownPod};

/// A status as it is written to the API server, and what the next one is computed with.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// As it is written.
    pub status: v1::PodStatus,
    /// For the next one.
    pub memory: Memory,
}

/// What has to be known of the status that was computed last, which the API server may not have yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when its conditions are as they are.
    transitions: Transitions,
    /// Its phase, if it was the last one that a pod can have.
    ended: Option<PodPhase>,
}

impl Memory {
    fn of(known: &KnownPod) -> Self {
        Self { transitions: Transitions::of(known), ended: known.phase.filter(|phase| is_terminal(*phase)) }
    }
}

/// The status of a pod that no API server has: the times of its conditions are not known.
pub fn status(view: &PodView, node: &NodeFacts) -> v1::PodStatus {
    let mut status = assemble(view, node, view.phase, &|_| 0);
    for condition in status.conditions.iter_mut().flatten().filter(|own| own.type_ == "PodScheduled") {
        condition.last_transition_time = Some(Time(view.started));
    }
    status
}

/// The status of a pod that the API server has as `known`: a terminal phase stays, no container's restarts
/// become fewer, a condition that does not change keeps its time, and a pod without a sandbox keeps its
/// addresses.
pub fn shown(
    view: &PodView,
    node: &NodeFacts,
    known: &KnownPod,
    before: Option<&Memory>,
    now: Timestamp,
) -> Shown {
    let mut memory = before.copied().unwrap_or_else(|| Memory::of(known));
    let ended = memory.ended.or_else(|| known.phase.filter(|phase| is_terminal(*phase)));
    let phase = ended.unwrap_or(view.phase);
    memory.ended = Some(phase).filter(|phase| is_terminal(*phase));
    let mut status = assemble(view, node, phase, &|name| known.restarts_of(name));
    if phase != view.phase || !has_reason(view) {
        (status.reason, status.message) = (None, None);
    }
    if status.pod_ips.is_none() {
        (status.pod_ip, status.pod_ips) = addresses(&known.ips);
    }
    status.start_time = Some(Time(known.started.unwrap_or_else(|| second(view.started))));
    let now = Some(second(now));
    for condition in status.conditions.iter_mut().flatten() {
        let state = ConditionStatus::of(&condition.status);
        let since = memory.transitions.at(&condition.type_, state, now);
        memory.transitions.set(&condition.type_, state, since);
        condition.last_transition_time = since.map(Time);
    }
    Shown { status, memory }
}

fn is_terminal(phase: PodPhase) -> bool {
    matches!(phase, PodPhase::Succeeded | PodPhase::Failed)
}

/// A kubelet's pods have a reason only once they have failed, for clients show it in place of the phase. A
/// manifest's pod may also wait for what the node does not have, which no kubelet's does.
fn has_reason(view: &PodView) -> bool {
    match view.phase {
        PodPhase::Failed => true,
        PodPhase::Pending => !view.origin.is_api() && !view.reason.is_passing(),
        PodPhase::Running | PodPhase::Succeeded => false,
    }
}

fn addresses(ips: &[IpAddr]) -> (Option<String>, Option<Vec<v1::PodIP>>) {
    let all: Vec<_> = ips.iter().map(|ip| v1::PodIP { ip: ip.to_string() }).collect();
    (ips.first().map(ToString::to_string), (!all.is_empty()).then_some(all))
}

fn assemble(view: &PodView, node: &NodeFacts, phase: PodPhase, floor: Floor<'_>) -> v1::PodStatus {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let declared = view.pod.declared();
    let runtime = node.runtime.as_deref();
    let all: Vec<(ContainerKind, v1::ContainerStatus)> = view
        .containers
        .iter()
        .zip(declared)
        .map(|(own, declared)| {
            let spec = nodewarden_manifest::parts(&view.pod).find(|spec| spec.name == own.name);
            (own.kind, container_status(own, declared, spec.as_deref(), runtime, floor(&own.name)))
        })
        .collect();
    let of = |kinds: &[ContainerKind]| {
        let chosen = all.iter().filter(|(kind, _)| kinds.contains(kind));
        let chosen: Vec<_> = chosen.map(|(_, status)| status.clone()).collect();
        (!chosen.is_empty()).then_some(chosen)
    };
    let (pod_ip, pod_ips) = addresses(&view.ips);
    let host_ips = host_ips(view, node);
    let generation = view.api.as_ref().and_then(|api| api.generation);
    let mut conditions = conditions(view, phase);
    // KEP-5067.
    conditions.iter_mut().for_each(|own| own.observed_generation = generation);
    v1::PodStatus {
        conditions: Some(conditions),
        observed_generation: generation,
        container_statuses: of(&[ContainerKind::Regular]),
        ephemeral_container_statuses: of(&[ContainerKind::Ephemeral]),
        init_container_statuses: of(&[ContainerKind::Init, ContainerKind::Sidecar]),
        host_ip: host_ips.first().map(ToString::to_string),
        host_ips: (!host_ips.is_empty())
            .then(|| host_ips.iter().map(|ip| v1::HostIP { ip: ip.to_string() }).collect()),
        pod_ip,
        pod_ips,
        phase: Some(phase.name().to_owned()),
        qos_class: Some(view.pod.qos.to_string()),
        reason: text(&view.reason.to_string()),
        message: text(&view.message),
        start_time: Some(Time(view.started)),
        ..v1::PodStatus::default()
    }
}

/// The node's addresses; where they are not known, those of a pod on the host network are the same.
fn host_ips<'a>(view: &'a PodView, node: &'a NodeFacts) -> &'a [IpAddr] {
    match (node.ips.as_slice(), view.pod.host_network) {
        ([], true) => &view.ips,
        (ips, _) => ips,
    }
}
