//! Sandboxes: which are stopped and forgotten, and whether there is a new one (kubelet `PodSandboxChanged`
//! and the first part of `computePodActions`).
//!
//! Unlike the kubelet, two ready sandboxes do not end both: the newest stays. And a sandbox without an
//! address is not replaced for it: one that could not be given a network is never ready.

use super::containers::Round;
use super::{Action, Plan};
use crate::decide::observed::{ContainerStage, Observed, SandboxSeen};

/// Every sandbox but `kept` is stopped and forgotten, oldest first.
pub(super) fn forget_others(observed: &Observed, kept: Option<&SandboxSeen>, actions: &mut Vec<Action>) {
    let mut others: Vec<&SandboxSeen> =
        observed.sandboxes.iter().filter(|s| kept.is_none_or(|kept| kept.id != s.id)).collect();
    others.sort_by_key(|s| (s.attempt, s.created, &s.id));
    for sandbox in others {
        // Stopped again even if it is not ready: only then is its network surely gone.
        actions.push(Action::StopSandbox { id: sandbox.id.to_string() });
        actions.push(Action::RemoveSandbox { id: sandbox.id.to_string() });
    }
}

/// What is to be done first for a pod whose sandboxes are in a cgroup that is no longer the pod's
/// (`cgroupRoot` or `cgroupDriver` was changed): every ready one is stopped, which ends its containers with
/// grace. `None` if none is ready: then the pod is planned as any other, and gets a new one (kubelet
/// `syncPod`: a pod that has run and whose cgroup is missing is killed, and made again in the same sync).
pub fn leave(observed: &Observed) -> Option<Plan> {
    let mut ready: Vec<&SandboxSeen> = observed.sandboxes.iter().filter(|sandbox| sandbox.ready).collect();
    ready.sort_by_key(|sandbox| (sandbox.attempt, sandbox.created, &sandbox.id));
    let actions: Vec<Action> =
        ready.into_iter().map(|sandbox| Action::StopSandbox { id: sandbox.id.to_string() }).collect();
    (!actions.is_empty()).then(|| Plan { actions, ..Plan::default() })
}

/// There is no ready sandbox.
pub(super) fn decide(round: &mut Round<'_>) {
    let newest = round.observed.newest_sandbox();
    if let Some(dead) = newest {
        forget_others(round.observed, Some(dead), &mut round.plan.actions);
        let lives = |stage| matches!(stage, ContainerStage::Running | ContainerStage::Unknown);
        if round.observed.containers.iter().any(|c| c.sandbox == dead.id && lives(c.stage)) {
            // How they end decides what comes next.
            round.plan.actions.push(Action::StopSandbox { id: dead.id.to_string() });
            return;
        }
    }
    if let Some(phase) = round.outcome() {
        round.plan.finished = Some(phase);
        if let Some(dead) = newest {
            round.forget_dead(dead);
        }
        return;
    }
    if let Some(dead) = newest {
        round.plan.actions.push(Action::StopSandbox { id: dead.id.to_string() });
    }
    let attempt = newest.map_or(0, |dead| dead.attempt.saturating_add(1));
    round.plan.actions.push(Action::CreateSandbox { attempt });
    round.wait_for_init(0);
}
