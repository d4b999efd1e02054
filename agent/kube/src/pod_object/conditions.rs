//! The conditions of a pod, as in `pkg/kubelet/status/generate.go`.

use k8s_openapi::api::core::v1;
use nodewarden_manifest::ContainerKind;
use nodewarden_model::{ContainerState, ContainerView, EvictionCause, PodPhase, PodView, ReadinessGate};

/// Word of a condition that holds.
pub(super) const TRUE: &str = "True";
const FALSE: &str = "False";

/// The conditions of a pod in this phase, without times.
pub(super) fn conditions(view: &PodView, phase: PodPhase) -> Vec<v1::PodCondition> {
    let gates = view.api.as_ref().map(|api| api.gates.as_slice()).unwrap_or_default();
    let ready = containers_ready(view, phase);
    let mut conditions = vec![
        plain("PodReadyToStartContainers", has_sandbox(view)),
        initialized(view, phase),
        pod_ready(&ready, gates),
        ready,
        plain("PodScheduled", true),
    ];
    // KEP-3329; not for evictions because of the pod's own disk limits (kubelet `localStorageEviction`).
    let disrupts = |cause| !matches!(cause, EvictionCause::OwnLimit | EvictionCause::Other);
    if view.is_evicted_or_preempted() && view.evicted.is_some_and(disrupts) {
        conditions.push(condition("DisruptionTarget", true, "TerminationByKubelet", view.message.clone()));
    }
    if let Some(pending) = &view.resize {
        // KEP-1287.
        conditions.push(condition("PodResizePending", true, pending.reason(), pending.message().to_owned()));
    }
    if let Some(resizing) = &view.resizing {
        let (reason, message) = (resizing.reason().unwrap_or_default(), resizing.error.clone());
        conditions.push(condition("PodResizeInProgress", true, reason, message.unwrap_or_default()));
    }
    conditions
}

fn has_sandbox(view: &PodView) -> bool {
    let running = view.containers.iter().any(|c| matches!(c.state, ContainerState::Running { .. }));
    !view.ips.is_empty() || running
}

fn initialized(view: &PodView, phase: PodPhase) -> v1::PodCondition {
    // The next container waits until a sidecar has started, not until it is ready.
    let incomplete = |c: &ContainerView| match c.kind {
        ContainerKind::Init => !c.ready,
        ContainerKind::Sidecar => !c.started,
        _ => false,
    };
    let uninitialised: Vec<_> =
        view.containers.iter().filter(|c| incomplete(c)).map(|c| c.name.as_str()).collect();
    let begun = view.containers.iter().any(|c| c.kind == ContainerKind::Regular && !c.id.is_empty());
    match phase {
        PodPhase::Succeeded => condition("Initialized", true, "PodCompleted", String::new()),
        // Once true, the condition stays true even if init containers or sidecars end later.
        _ if begun || uninitialised.is_empty() => plain("Initialized", true),
        _ => {
            let message = format!("containers with incomplete status: [{}]", uninitialised.join(" "));
            condition("Initialized", false, "ContainersNotInitialized", message)
        }
    }
}

fn containers_ready(view: &PodView, phase: PodPhase) -> v1::PodCondition {
    let counts = |c: &&ContainerView| matches!(c.kind, ContainerKind::Sidecar | ContainerKind::Regular);
    let unready = view.containers.iter().filter(counts).filter(|c| !c.ready);
    let unready: Vec<_> = unready.map(|c| c.name.as_str()).collect();
    let name = "ContainersReady";
    match phase {
        PodPhase::Succeeded => condition(name, false, "PodCompleted", String::new()),
        PodPhase::Failed => condition(name, false, "PodFailed", String::new()),
        _ if unready.is_empty() => plain(name, true),
        _ => {
            let message = format!("containers with unready status: [{}]", unready.join(" "));
            condition(name, false, "ContainersNotReady", message)
        }
    }
}

/// KEP-580.
fn pod_ready(containers: &v1::PodCondition, gates: &[ReadinessGate]) -> v1::PodCondition {
    let unready = |gate: &ReadinessGate| {
        let name = &gate.condition;
        match gate.status.as_deref() {
            Some(TRUE) => None,
            Some(other) => {
                Some(format!("the status of pod readiness gate {name:?} is not \"True\", but {other}"))
            }
            None => Some(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
        }
    };
    let closed: Vec<_> = gates.iter().filter_map(unready).collect();
    if containers.status == TRUE && !closed.is_empty() {
        return condition("Ready", false, "ReadinessGatesNotReady", closed.join(", "));
    }
    v1::PodCondition { type_: "Ready".to_owned(), ..containers.clone() }
}

fn plain(name: &str, status: bool) -> v1::PodCondition {
    condition(name, status, "", String::new())
}

fn condition(name: &str, status: bool, reason: &str, message: String) -> v1::PodCondition {
    v1::PodCondition {
        type_: name.to_owned(),
        status: if status { TRUE } else { FALSE }.to_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message: (!message.is_empty()).then_some(message),
        ..v1::PodCondition::default()
    }
}
