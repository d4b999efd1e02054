//! What follows from the runs of a container's probes (pkg/kubelet/prober, `worker.doProbe` and
//! `manager.UpdatePodStatus`): pure.
//!
//! A kubelet's worker takes a run of equal results over to the next container of the same name. Here every container
//! begins at nothing, so that a threshold is always about one container.

#[cfg(test)]
mod kubelet;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use super::{ProbeMemory, Standing};
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Verdict;

/// What probes wait for, in words that follow "waits for".
pub const STARTUP: &str = "the startup probe";
pub const NEW_CONTAINER: &str = "a new container";
pub const END: &str = "the end of the pod";

/// Takes a run into how its probe stands. `Some`: the result has changed to this.
pub fn take(spec: &ProbeSpec, standing: &mut Standing, seen: Verdict) -> Option<Verdict> {
    if standing.last == Some(seen) {
        standing.run = standing.run.saturating_add(1);
    } else {
        standing.last = Some(seen);
        standing.run = 1;
    }
    let threshold = match seen {
        Verdict::Success => spec.success_threshold,
        Verdict::Failure => spec.failure_threshold,
    };
    if standing.run < threshold || standing.result == Some(seen) {
        return None;
    }
    standing.result = Some(seen);
    Some(seen)
}

/// Whether an agent that starts with `before` would go on otherwise than one with `after`. Runs that agree with the
/// result change nothing however many they are; of all others each counts, as does the end of a row of them.
pub fn differs(before: &Standing, after: &Standing) -> bool {
    before.result != after.result
        || before.last != after.last
        || (after.last != after.result && before.run != after.run)
}

/// Why a probe of a running container is not made now; it is due by the clock if for nothing.
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
        // The container is to be restarted, and a command in one that is being stopped can upset the runtime.
        _ if result == Some(Verdict::Failure) => return Some(NEW_CONTAINER),
        ProbeKind::Startup if result == Some(Verdict::Success) => return Some(NEW_CONTAINER),
        _ => {}
    }
    if kind == ProbeKind::Startup || started(specs, memory) {
        return None;
    }
    Some(if memory.startup.result == Some(Verdict::Failure) { NEW_CONTAINER } else { STARTUP })
}

/// Whether a running container has started: it has no startup probe, or that has succeeded.
pub fn started(specs: &[ProbeSpec], memory: &ProbeMemory) -> bool {
    !has(specs, ProbeKind::Startup) || memory.startup.result == Some(Verdict::Success)
}

/// Whether a running container is ready: it has started, and has no readiness probe or that succeeds.
pub fn ready(specs: &[ProbeSpec], memory: &ProbeMemory) -> bool {
    started(specs, memory)
        && (!has(specs, ProbeKind::Readiness) || memory.readiness.result == Some(Verdict::Success))
}

/// The probe for whose failure a running container is to be restarted.
pub fn failed(specs: &[ProbeSpec], memory: &ProbeMemory) -> Option<ProbeKind> {
    // The kubelet asks in this order (kuberuntime, `computePodActions`).
    [ProbeKind::Liveness, ProbeKind::Startup]
        .into_iter()
        .find(|&kind| has(specs, kind) && memory.of(kind).result == Some(Verdict::Failure))
}

fn has(specs: &[ProbeSpec], kind: ProbeKind) -> bool {
    specs.iter().any(|spec| spec.kind == kind)
}
