//! Which containers are probed: those that run according to the runtime and the kernel, once their postStart
//! hook is done (kubelet prober `worker.doProbe`).
//!
//! All of this is done by the pod's worker alone, one thing at a time.

use std::net::IpAddr;
use std::sync::Arc;

use super::sink::Sink;
use crate::act::kill;
use crate::decide::observed::{ContainerSeen, ContainerStage};
use crate::decide::policy;
use crate::decide::published::NOTHING;
use crate::decide::published::specs;
use crate::state::Probing;
use crate::state::{Inner, PodState};
use nodewarden_manifest::{Pod, ProbeSpec, parts};
use nodewarden_pods::probes::{ProbeMemory, Target, Watched};

/// Starts and ends the probing of containers, so that exactly those are probed that should be. Called after
/// every look at the runtime and after every start.
pub fn follow(state: &PodState) {
    let pod = state.pod();
    let has_probes = parts(&pod).any(|own| policy::has_probes(&own));
    if !has_probes && state.read().probing.is_none() {
        return;
    }
    let address = kill::ips(state).first().copied();
    let (gone, new) = state.set(|inner| {
        let lives = |seen: &&ContainerSeen| seen.stage != ContainerStage::Exited;
        let living: Vec<String> =
            inner.observed.containers.iter().filter(lives).map(|seen| seen.id.to_string()).collect();
        if let Some(probing) = &mut inner.probing {
            probing.published.retain(|id| living.iter().any(|own| own == id));
        }
        let wanted = wanted(&pod, inner, address);
        let before = inner.probing.as_mut().map(|probing| std::mem::take(&mut probing.watched));
        let stays = |watched: &Watched| {
            watched.address() == address
                && wanted.iter().any(|(target, ..)| target.container_id == watched.container_id())
        };
        let (kept, gone): (Vec<_>, Vec<_>) = before.unwrap_or_default().into_iter().partition(stays);
        let is_new = |target: &Target| kept.iter().all(|own| own.container_id() != target.container_id);
        let new: Vec<_> = wanted.into_iter().filter(|(target, ..)| is_new(target)).collect();
        put(inner, kept);
        (gone, new)
    });
    // Outside of the lock, since the engine has one of its own.
    drop(gone);
    let ending = state.is_ending();
    for (target, specs, memory) in new {
        let sink = Sink { state: state.own(), name: target.container.clone(), id: memory.container.clone() };
        let watched = state.env.probes.watch(target, specs, memory, Arc::new(sink));
        if ending {
            watched.end();
        }
        state.set(|inner| inner.probing_mut().watched.push(watched));
    }
}

/// What is to be probed, how, and the last results.
fn wanted(pod: &Pod, inner: &Inner, address: Option<IpAddr>) -> Vec<(Target, Vec<ProbeSpec>, ProbeMemory)> {
    let published = inner.published();
    let mut wanted = Vec::new();
    for spec in parts(pod).filter(|spec| policy::has_probes(spec)) {
        let newest = inner.observed.newest(&spec.name);
        let Some(seen) = newest.filter(|seen| {
            seen.stage == ContainerStage::Running
                && !published.has_exited(&seen.id)
                && inner.record.hook_is_done(pod, seen)
        }) else {
            continue;
        };
        let specs = specs(pod, &spec.name);
        if specs.is_empty() {
            continue;
        }
        let own = inner.record.container(&spec.name);
        let memory = own.and_then(|own| own.memory(&seen.id)).cloned();
        let target = Target {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            container: seen.name.clone(),
            container_id: seen.id.to_string(),
            started: seen.started.unwrap_or(seen.created),
            address,
        };
        wanted.push((target, specs, memory.unwrap_or_else(|| ProbeMemory::new(&seen.id))));
    }
    wanted
}

/// Keeps what is probed; a pod of which nothing is to be remembered has no probing at all.
fn put(inner: &mut Inner, watched: Vec<Watched>) {
    if watched.is_empty() && *inner.published() == NOTHING {
        inner.probing = None;
    } else {
        inner.probing_mut().watched = watched;
    }
}

/// The kernel saw the container end: it is neither probed nor ready from now on, whatever the runtime still
/// says.
pub fn exited(state: &PodState, id: &str) {
    let (news, gone) = state.set(|inner| {
        let mut gone = None;
        let lives = |seen: &ContainerSeen| seen.id == id && seen.stage == ContainerStage::Running;
        let news = inner.observed.containers.iter().any(lives) && inner.probing_mut().published.exit(id);
        if let Some(probing) = &mut inner.probing
            && let Some(at) = probing.watched.iter().position(|watched| watched.container_id() == id)
        {
            gone = Some(probing.watched.swap_remove(at));
        }
        (news, gone)
    });
    drop(gone);
    if news {
        state.show();
    }
}

/// The runtime still reports that a container runs which the kernel saw end: its probes count again.
pub fn alive(state: &PodState, id: &str) {
    let doubted =
        state.set(|inner| inner.probing.as_mut().is_some_and(|probing| probing.published.is_alive(id)));
    if doubted {
        follow(state);
        state.show();
    }
}

/// The pod is to end: only readiness is probed from now on.
pub fn stop(state: &PodState) {
    let watched =
        state.set(|inner| inner.probing.as_mut().map(|probing| std::mem::take(&mut probing.watched)));
    let Some(watched) = watched else { return };
    watched.iter().for_each(Watched::end);
    state.set(|inner| inner.probing_mut().watched = watched);
}

/// Nothing of the pod is probed any more, for this worker.
pub fn ended(state: &PodState) {
    let probing: Option<Box<Probing>> = state.set(|inner| inner.probing.take());
    drop(probing);
}

/// The pod is gone.
pub fn forget(state: &PodState) {
    ended(state);
    state.env.probes.forget(&state.pod().uid);
}
