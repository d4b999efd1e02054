//! The status of a pod, in the kubelet's words (`convertStatusToAPIStatus`, `getPhase`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::policy;
use crate::decide::observed::{ContainerSeen, ContainerStage, Observed};
use crate::decide::plan::{Action, Plan};
use crate::decide::published::Published;
use crate::record::{ContainerRecord, Evicted, Record};
use nodewarden_devices::DeviceHealth;
use nodewarden_eviction::EvictionReason;
use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_model::{
    ApiState, ContainerState, ContainerView, EndReason, Ended, EvictionCause, PodPhase, PodReason, PodView,
    ResizeInProgress, ResizePending, StatusReason, Waiting, WaitingReason,
};

/// Reason of a pod that was ended because the node shuts down (kubelet `nodeshutdown`).
const SHUTDOWN: &str = "Terminated";

/// What keeps a pod as a whole from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Becomes `status.reason`.
    pub reason: PodReason,
    /// Becomes `status.message`.
    pub message: String,
}

/// What a pod's status is made of.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What runs.
    pub pod: &'a Arc<Pod>,
    pub observed: &'a Observed,
    pub record: &'a Record,
    /// The results of the containers' probes.
    pub published: &'a Published,
    pub plan: &'a Plan,
    /// Containers by name that could not be started just now. Shown instead of what the plan has them wait
    /// for.
    pub failed: &'a BTreeMap<String, Waiting>,
    /// Health of its devices by container, resource and id.
    pub devices: &'a DeviceHealth,
    /// The node's addresses, for pods on its network.
    pub node_ips: &'a [IpAddr],
    /// What keeps the pod as a whole from running; `None` when all is well.
    pub trouble: Option<&'a Trouble>,
    /// Why the pod does not have the resources that it should have.
    pub resize: Option<&'a ResizePending>,
    /// Whether a resize of its containers was begun and is not known to be done, and why one could not be
    /// resized.
    pub resizing: (bool, Option<&'a str>),
    /// What the API server knows of the pod.
    pub api: Option<&'a Arc<ApiState>>,
    /// It is being deleted at the API server, and nothing is left of it here.
    pub ended: bool,
}

/// The pod's status.
pub fn view(facts: &Facts<'_>) -> PodView {
    let Facts { pod, observed, record, plan, .. } = *facts;
    // Held, so that each container does not decode it again.
    let _decoded = pod.spec();
    let containers: Vec<ContainerView> = pod.declared().map(|c| container(facts, c)).collect();
    let sandbox = observed.newest_sandbox();
    let host_network = pod.host_network;
    let ips = match sandbox.filter(|s| s.ready) {
        Some(_) if host_network => facts.node_ips.to_vec(),
        Some(sandbox) => sandbox.ips.clone(),
        None => Vec::new(),
    };
    let ending = record.ending.as_ref();
    let evicted = record.evicted();
    // The API server shows the deletion of its pods itself, and the kubelet leaves the reason as it was.
    let shown_ending = ending.filter(|_| !record.origin.is_api());
    let (reason, message) = match (shown_ending, evicted) {
        (Some(ending), _) if facts.trouble.is_none() => (StatusReason::Terminating, ending.why.as_str()),
        (None, Some(evicted)) => (StatusReason::Ended(evicted.reason.to_string()), evicted.message.as_str()),
        _ => match facts.trouble {
            Some(trouble) => (StatusReason::Trouble(trouble.reason.clone()), trouble.message.as_str()),
            None => Default::default(),
        },
    };
    let being_ended = evicted.filter(|evicted| evicted.gone.is_none());
    // As for the kubelet, a pod has not failed before all of it has ended (status manager `mergePodStatus`).
    let phase = match evicted.filter(|evicted| evicted.has_failed()) {
        Some(_) => PodPhase::Failed,
        None if facts.ended => terminal(&containers),
        None => plan.finished.unwrap_or_else(|| phase(pod, record, &containers)),
    };
    PodView {
        pod: pod.clone(),
        origin: record.origin.clone(),
        phase,
        reason,
        message: message.to_owned(),
        started: record.accepted,
        terminating: ending.map(|ending| ending.since).or(being_ended.map(|evicted| evicted.since)),
        ips,
        sandbox_id: sandbox.map(|s| s.id.to_string()).unwrap_or_default(),
        containers: if was_rejected(facts) { Vec::new() } else { containers },
        resize: facts.resize.cloned(),
        resizing: resizing(facts),
        evicted: evicted.filter(|_| shown_ending.is_none()).map(cause),
        ended: facts.ended,
        api: facts.api.cloned(),
        unseen: false,
    }
}

/// A resize that an earlier agent began shows in the plan alone.
fn resizing(facts: &Facts<'_>) -> Option<ResizeInProgress> {
    let (begun, error) = facts.resizing;
    let is_update = |action: &Action| matches!(action, Action::UpdateResources { .. });
    let is_under_way = begun || facts.plan.actions.iter().any(is_update);
    (is_under_way && facts.record.evicted().is_none())
        .then(|| ResizeInProgress { error: error.map(str::to_owned) })
}

/// Only an eviction for what the node is low on has a condition of the node.
fn cause(evicted: &Evicted) -> EvictionCause {
    match (&evicted.reason, evicted.condition) {
        (EvictionReason::Evicted, Some(_)) => EvictionCause::NodePressure,
        (EvictionReason::Evicted, None) => EvictionCause::OwnLimit,
        (EvictionReason::Preempting, _) => EvictionCause::Preemption,
        (EvictionReason::Other(reason), _) if reason == SHUTDOWN => EvictionCause::Shutdown,
        (EvictionReason::Other(_), _) => EvictionCause::Other,
    }
}

/// The phase of a pod of which nothing runs or will run (kubelet `getPhase` of a terminal pod, status manager
/// `TerminatePod`): one whose containers have not all run to a good end has failed.
fn terminal(containers: &[ContainerView]) -> PodPhase {
    let well = |view: &ContainerView| matches!(&view.state, ContainerState::Terminated(ended) if ended.exit_code == 0);
    let counts = |view: &&ContainerView| matches!(view.kind, ContainerKind::Init | ContainerKind::Regular);
    if containers.iter().filter(counts).all(well) { PodPhase::Succeeded } else { PodPhase::Failed }
}

fn container(facts: &Facts<'_>, container: &Container) -> ContainerView {
    let Facts { pod, observed, record, .. } = *facts;
    let name = &container.name;
    let nothing = ContainerRecord::default();
    let own = record.container(name).unwrap_or(&nothing);
    let seen = observed.newest(name);
    let (state, last) = state(facts, container, seen, own);
    let running = matches!(state, ContainerState::Running { .. });
    let up = seen.filter(|seen| running && record.hook_is_done(pod, seen));
    let started = up.is_some_and(|seen| facts.published.started(pod, seen));
    let ready = up.is_some_and(|seen| facts.published.ready(pod, seen));
    let done = matches!(&state, ContainerState::Terminated(ended) if ended.exit_code == 0);
    ContainerView {
        name: name.clone(),
        kind: container.kind,
        image: policy::spec_of(pod, name).and_then(|c| c.image.clone()).unwrap_or_default(),
        image_id: seen.map(|seen| seen.image_id.to_string()).unwrap_or_default(),
        id: seen.map(|seen| seen.id.to_string()).unwrap_or_default(),
        last,
        restarts: restarts(seen, own, facts.failed.contains_key(name)),
        ready: match container.kind {
            ContainerKind::Init => done,
            ContainerKind::Ephemeral => false,
            ContainerKind::Sidecar | ContainerKind::Regular => ready,
        },
        started,
        resources: own.given.as_ref().filter(|_| running).cloned(),
        devices: facts.devices.get(name).cloned().unwrap_or_default(),
        oom: seen.and_then(|seen| own.victim(&seen.id)).cloned().map(Box::new),
        state,
    }
}

/// How often the container was started again. One that is being made does not count before it has started, or
/// has failed to: until then the rest of the status is that of the one before it, and a reader would take the
/// two for one.
fn restarts(seen: Option<&ContainerSeen>, own: &ContainerRecord, failed: bool) -> u32 {
    let newest = seen.map_or(0, |seen| seen.attempt).max(own.restarts);
    let created = seen.is_some_and(|seen| seen.stage == ContainerStage::Created);
    if own.pending || (created && !failed) { newest.saturating_sub(1) } else { newest }
}

/// `state` and `lastState`.
fn state(
    facts: &Facts<'_>,
    container: &Container,
    seen: Option<&ContainerSeen>,
    own: &ContainerRecord,
) -> (ContainerState, Option<Box<Ended>>) {
    let name = &container.name;
    let waiting = facts.failed.get(name).or_else(|| facts.plan.waiting.get(name));
    let wait = || {
        let Waiting { reason, message } = waiting.cloned().unwrap_or_else(|| {
            let initialising = !facts.pod.init_containers.is_empty();
            let reason =
                if initialising { WaitingReason::PodInitializing } else { WaitingReason::ContainerCreating };
            Waiting { reason, message: String::new() }
        });
        ContainerState::Waiting { reason, message }
    };
    // How the one before the newest ended: what the runtime still has, else what was noted.
    let before = || {
        let newest = seen.map(|seen| seen.id.as_str());
        let older = facts.observed.ended(name).filter(|c| Some(c.id.as_str()) != newest);
        let older = older.max_by_key(|c| (c.attempt, c.created)).map(|c| Box::new(own.ended(c)));
        let noted = own.last.as_ref().filter(|last| Some(last.id.as_str()) != newest);
        match (older, noted) {
            (Some(older), Some(noted)) if older.id == noted.id => Some(noted.clone()),
            (Some(older), _) => Some(older),
            (None, noted) => noted.cloned(),
        }
    };
    let Some(seen) = seen else {
        // The runtime has none (any more).
        return match &own.last {
            Some(last) if waiting.is_none() && !comes(facts, container, own, last) => {
                (ContainerState::Terminated(last.clone()), None)
            }
            // As the kubelet says of containers that a pod left without a trace (status manager
            // `TerminatePod`).
            None if has_failed(facts) && container.kind == ContainerKind::Regular => {
                (ContainerState::Terminated(Box::new(untraced())), None)
            }
            last => (wait(), last.clone()),
        };
    };
    match seen.stage {
        ContainerStage::Created => (wait(), before()),
        ContainerStage::Running => {
            (ContainerState::Running { since: seen.started.unwrap_or(seen.created) }, before())
        }
        ContainerStage::Exited => {
            let noted = own.last.as_ref().filter(|last| last.id == seen.id);
            let ended = noted.cloned().unwrap_or_else(|| Box::new(own.ended(seen)));
            match waiting {
                Some(_) => (wait(), Some(ended)),
                None => (ContainerState::Terminated(ended), before()),
            }
        }
        ContainerStage::Unknown => {
            let ended = Ended {
                reason: EndReason::StatusUnknown,
                message: "The container could not be located".into(),
                exit_code: 137,
                ..own.ended(seen)
            };
            (ContainerState::Terminated(Box::new(ended)), before())
        }
    }
}

/// It never was admitted: a kubelet's rejected pods have no containers in their status.
fn was_rejected(facts: &Facts<'_>) -> bool {
    let Facts { record, observed, .. } = *facts;
    let other = |evicted: &Evicted| matches!(evicted.reason, EvictionReason::Other(_));
    let never_ran = !record.admitted && record.containers.is_empty() && observed.containers.is_empty();
    record.origin.is_api() && never_ran && record.evicted().is_some_and(other)
}

fn has_failed(facts: &Facts<'_>) -> bool {
    facts.ended || facts.record.evicted().is_some_and(Evicted::has_failed)
}

fn untraced() -> Ended {
    Ended {
        id: String::new(),
        exit_code: 137,
        signal: 0,
        reason: EndReason::StatusUnknown,
        message: "The container could not be located when the pod was terminated".into(),
        started: None,
        finished: None,
        oom: None,
    }
}

/// Whether a container that the runtime does not have will be there again.
fn comes(facts: &Facts<'_>, container: &Container, own: &ContainerRecord, last: &Ended) -> bool {
    facts.plan.finished.is_none()
        && !facts.record.is_leaving()
        && policy::starts_again(facts.pod, container, Some(own), &last.id, last.exit_code)
}

/// `status.phase` of a pod that is not finished.
fn phase(pod: &Pod, record: &Record, containers: &[ContainerView]) -> PodPhase {
    let (mut pending_init, mut pending_sidecars) = (false, false);
    let (mut running, mut waiting, mut stopped, mut succeeded) = (0, 0, 0, 0);
    let mut restarting = false;
    let starts_again = |container: &Container, ended: &Ended| {
        let own = record.container(&container.name);
        policy::starts_again(pod, container, own, &ended.id, ended.exit_code)
    };
    let declared = pod.init_containers.iter().chain(&pod.containers);
    for (container, view) in declared.zip(containers) {
        let last = view.last.as_ref();
        match (container.kind, &view.state) {
            (ContainerKind::Init, ContainerState::Terminated(ended)) => {
                if ended.exit_code != 0 && !starts_again(container, ended) {
                    return PodPhase::Failed;
                }
            }
            (ContainerKind::Init, ContainerState::Waiting { .. }) if last.is_some() => {}
            (ContainerKind::Init, _) => pending_init = true,
            (ContainerKind::Sidecar, ContainerState::Running { .. }) => {
                pending_sidecars |= !view.started;
                running += 1;
            }
            (ContainerKind::Sidecar, ContainerState::Waiting { .. }) if last.is_none() => {
                pending_sidecars = true;
                waiting += 1;
            }
            (ContainerKind::Sidecar | ContainerKind::Ephemeral, _) => {}
            (ContainerKind::Regular, state) => {
                let ended = match state {
                    ContainerState::Running { .. } => {
                        running += 1;
                        continue;
                    }
                    ContainerState::Terminated(ended) => Some(ended),
                    ContainerState::Waiting { .. } => last,
                };
                match ended {
                    None => waiting += 1,
                    Some(ended) => {
                        stopped += 1;
                        restarting |= starts_again(container, ended);
                        succeeded += u32::from(ended.exit_code == 0);
                    }
                }
            }
        }
    }
    let initialised = containers
        .iter()
        .any(|view| view.kind == ContainerKind::Regular && (view.last.is_some() || !is_waiting(&view.state)));
    if pending_init || (pending_sidecars && !initialised) || waiting > 0 {
        PodPhase::Pending
    } else if running > 0 || stopped == 0 || restarting {
        PodPhase::Running
    } else if stopped == succeeded {
        PodPhase::Succeeded
    } else {
        PodPhase::Failed
    }
}

fn is_waiting(state: &ContainerState) -> bool {
    matches!(state, ContainerState::Waiting { .. })
}

#[cfg(test)]
mod tests;
