//! Evaluates the runs of a container's probes (pkg/kubelet/prober, `worker.doProbe` and
//! `manager.UpdatePodStatus`). Pure.
//!
//! A kubelet's worker carries a row of equal results over to the next container of the same name. Here every
//! container starts without one, so that a threshold always concerns a single container.

#[cfg(test)]
mod kubelet;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use super::{ProbeMemory, ProbeState};
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Verdict;

/// What a probe waits for until its container has started; text after "waits for".
pub(crate) const STARTUP: &str = "the startup probe";
/// What the probes of a container that will be restarted wait for.
pub(crate) const NEW_CONTAINER: &str = "a new container";
/// What liveness and startup probes wait for while the pod is being terminated.
pub(crate) const END: &str = "the end of the pod";

/// Adds a run to the state of its probe. Returns the new result if it changed.
pub fn take(spec: &ProbeSpec, probe_state: &mut ProbeState, seen: Verdict) -> Option<Verdict> {
    if probe_state.last == Some(seen) {
        probe_state.run = probe_state.run.saturating_add(1);
    } else {
        probe_state.last = Some(seen);
        probe_state.run = 1;
    }
    let threshold = match seen {
        Verdict::Success => spec.success_threshold,
        Verdict::Failure => spec.failure_threshold,
    };
    if probe_state.run < threshold || probe_state.result == Some(seen) {
        return None;
    }
    probe_state.result = Some(seen);
    Some(seen)
}

/// Whether an agent restarted with the state `before` would behave differently from one with `after`, so that
/// `after` must be saved. The number of runs that agree with the result does not matter; each other run does,
/// and so does the end of a row of them.
pub fn differs(before: &ProbeState, after: &ProbeState) -> bool {
    before.result != after.result
        || before.last != after.last
        || (after.last != after.result && before.run != after.run)
}

/// Why a probe of a running container does not run now; `None` if it follows its schedule.
pub fn waits(
    kind: ProbeKind,
    specs: &[ProbeSpec],
    memory: &ProbeMemory,
    ending: bool,
) -> Option<&'static str> {
    let result = memory.of(kind).result;
    match kind {
        ProbeKind::Readiness => {}
        _ if ending => return Some(END),
        // The container will be restarted, and commands in a container that is being stopped can confuse the
        // runtime.
        _ if result == Some(Verdict::Failure) => return Some(NEW_CONTAINER),
        ProbeKind::Startup if result == Some(Verdict::Success) => return Some(NEW_CONTAINER),
        _ => {}
    }
    if kind == ProbeKind::Startup || started(specs, memory) {
        return None;
    }
    Some(if memory.startup.result == Some(Verdict::Failure) { NEW_CONTAINER } else { STARTUP })
}

/// Whether a running container has started: it has no startup probe, or the probe succeeded.
pub fn started(specs: &[ProbeSpec], memory: &ProbeMemory) -> bool {
    !has(specs, ProbeKind::Startup) || memory.startup.result == Some(Verdict::Success)
}

/// Whether a running container is ready: it has started, and it has no readiness probe or the probe succeeds.
pub fn ready(specs: &[ProbeSpec], memory: &ProbeMemory) -> bool {
    started(specs, memory)
        && (!has(specs, ProbeKind::Readiness) || memory.readiness.result == Some(Verdict::Success))
}

/// The probe for whose failure a running container is to be restarted.
pub fn failed(specs: &[ProbeSpec], memory: &ProbeMemory) -> Option<ProbeKind> {
    // In the kubelet's order (kuberuntime, `computePodActions`).
    [ProbeKind::Liveness, ProbeKind::Startup]
        .into_iter()
        .find(|&kind| has(specs, kind) && memory.of(kind).result == Some(Verdict::Failure))
}

fn has(specs: &[ProbeSpec], kind: ProbeKind) -> bool {
    specs.iter().any(|spec| spec.kind == kind)
}
