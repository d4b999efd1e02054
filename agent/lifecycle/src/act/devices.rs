//! The devices, CPUs and memory of a pod: allocated together before its sandbox is made, devices allowed in
//! the kernel, all released at its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;
use tracing::warn;

use super::{cpusets, evict};
use crate::decide::phase::Trouble;
use crate::environment::Environment;
use crate::state::PodState;
use nodewarden_config::Enforcement;
use nodewarden_cri::{ListedContainer, Listing};
use nodewarden_devices::{AdmissionError, Devices, EnforceError, Guards, PodDemand};
use nodewarden_manifest::{ContainerKind, Pod};
use nodewarden_model::PodReason;
use nodewarden_pods::spec::DeviceInjection;
use nodewarden_pods::spec::labels::{CONTAINER_NAME, POD_UID};
use nodewarden_pods::spec::{DEVICES, ids_from_json};
use nodewarden_pods::volume;
use nodewarden_resource_managers::Refused;

/// How long a pod waits for its devices before it looks again, if nothing changes.
const AGAIN: Duration = Duration::from_secs(5);
/// How long an adopted pod's cgroup is waited for.
const ADOPTION: Duration = Duration::from_secs(2);

/// Waits until the pod has all its devices, CPUs and memory, and shows why it waits. False when the pod is to
/// end.
pub async fn admit(state: &PodState) -> bool {
    let env = &state.env;
    let pod = state.pod();
    if PodDemand::of(&pod).is_empty() && !env.managers.is_active() {
        return true;
    }
    let (mut devices, mut resources) = (env.devices.changes(), env.managers.changes());
    loop {
        devices.mark_unchanged();
        resources.mark_unchanged();
        let admitted = state.unless_ending(env.managers.admit(&pod, &env.devices)).await;
        match admitted {
            None => return false,
            Some(Ok(granted)) => {
                if let Some(admitted) = granted.devices {
                    env.record_event(&pod, None, "DevicesAllocated", admitted.description);
                }
                if let Some(description) = granted.resources {
                    env.record_event(&pod, None, "ResourcesAllocated", description);
                }
                state.note(|inner| inner.trouble = None);
                return true;
            }
            Some(Err(error)) if state.is_api() && is_final(&error) => {
                evict::reject(state, &reason(&error), &error.to_string());
                return false;
            }
            Some(Err(error)) => waits(state, &error),
        }
        let news = async {
            // Errors only when the agent ends.
            let changed = async {
                tokio::select! {
                    _ = devices.changed() => {}
                    _ = resources.changed() => {}
                }
            };
            let _ = tokio::time::timeout(AGAIN, changed).await;
        };
        if state.unless_ending(news).await.is_none() {
            return false;
        }
    }
}

/// A kubelet would reject the pod. What is about to be known is waited for instead: a plugin that connects
/// again, the runtime's answer after the loss of the checkpoint.
fn is_final(error: &Refused) -> bool {
    match error {
        Refused::Devices(error) => error.reason() != PodReason::DevicePluginNotReady,
        Refused::Resources(_) | Refused::NotSaved(_) => true,
        Refused::Recovering => false,
    }
}

/// The reason for the pod's status.
fn reason(error: &Refused) -> PodReason {
    match error {
        Refused::Devices(error) => error.reason(),
        Refused::Resources(rejection) => rejection.reason.clone(),
        Refused::Recovering | Refused::NotSaved(_) => PodReason::UnexpectedAdmissionError,
    }
}

fn waits(state: &PodState, error: &Refused) {
    let trouble = Box::new(Trouble { reason: reason(error), message: error.to_string() });
    let mut news = false;
    state.note(|inner| {
        news = inner.trouble.as_ref() != Some(&trouble);
        inner.trouble = Some(trouble.clone());
    });
    if news {
        state.env.record_event(&state.pod(), None, &trouble.reason.to_string(), trouble.message);
    }
}

/// What a container about to be made gets with its devices. It has them since the pod was admitted; only
/// after a loss of the checkpoint are they asked for here.
///
/// # Errors
/// It can't have them, or a plugin does not make them ready.
pub async fn for_container(state: &PodState, name: &str) -> Result<DeviceInjection, AdmissionError> {
    let pod = state.pod();
    let demand = PodDemand::of(&pod).only(name);
    if demand.is_empty() {
        return Ok(DeviceInjection::default());
    }
    // A plugin may take its time, and others start meanwhile.
    state.release_start_permit();
    let devices = &state.env.devices;
    devices.admit(&demand).await?;
    devices.pre_start(&pod.uid, name).await?;
    let injection = devices.injection(&pod.uid, name);
    if !injection.conflicts.is_empty() {
        let message = format!("device plugins say different things of {}", injection.conflicts.join(", "));
        state.env.record_event(&pod, Some((name, "")), "DeviceConflict", message);
    }
    Ok(injection)
}

/// Sets in the kernel which devices the pod's cgroup may open. Only in mode Enforce a failure keeps the pod
/// from running.
///
/// # Errors
/// The kernel refuses, in mode Enforce.
pub async fn guard(state: &PodState) -> Result<(), EnforceError> {
    let (pod, env) = (state.pod(), &state.env);
    let Some(guards) = &env.guards else { return Ok(()) };
    let Some(place) = env.places.borrow().get(&pod.uid).map(|place| place.path.clone()) else {
        return Ok(());
    };
    let own = pod.clone();
    let guarded = with_guards(env, &pod, move |guards, devices| guards.guard(devices, &own, &place));
    match guarded.await {
        Ok(()) => Ok(()),
        Err(error) if guards.mode(&pod) == Enforcement::Enforce => Err(error),
        Err(error) => {
            warn!("{error}: device accesses of {}/{} are not seen", pod.namespace, pod.name);
            Ok(())
        }
    }
}

/// Applies the policy again after devices of the pod turned healthy or unhealthy.
///
/// # Errors
/// The kernel refuses, or a file system of the pod does not answer.
pub async fn health_changed(env: &Environment, uid: &str) -> Result<(), EnforceError> {
    let Some(pod) = env.guards.as_ref().and_then(|guards| guards.pod(uid)) else { return Ok(()) };
    let uid = uid.to_owned();
    with_guards(env, &pod, move |guards, devices| guards.health_changed(devices, &uid)).await
}

/// Runs `work` on a thread for the pod's paths, which it looks at.
async fn with_guards(
    env: &Environment,
    pod: &Pod,
    work: impl FnOnce(&Guards, &Devices) -> Result<(), EnforceError> + Send + 'static,
) -> Result<(), EnforceError> {
    let Some(guards) = env.guards.clone() else { return Ok(()) };
    on_thread(guards, env.devices.clone(), pod, work).await
}

async fn on_thread(
    guards: Guards,
    devices: Devices,
    pod: &Pod,
    work: impl FnOnce(&Guards, &Devices) -> Result<(), EnforceError> + Send + 'static,
) -> Result<(), EnforceError> {
    match volume::on_host_paths(volume::host_paths(pod), move || work(&guards, &devices)).await {
        Ok(Some(done)) => done,
        Ok(None) => Err(EnforceError::NotSeen { reason: "a fault in the agent".into() }),
        Err(error) => Err(EnforceError::NotSeen { reason: error.to_string() }),
    }
}

/// Guards a pod that runs since an earlier agent, with what the runtime added to its containers.
pub async fn adopt(state: &PodState) {
    cpusets::recover(state).await;
    let (pod, env) = (state.pod(), &state.env);
    if env.guards.as_ref().is_none_or(|guards| guards.mode(&pod) == Enforcement::Off) {
        return;
    }
    let mut places = env.places.clone();
    let there = places.wait_for(|places| places.contains_key(&pod.uid));
    drop(tokio::time::timeout(ADOPTION, there).await);
    if let Err(error) = guard(state).await {
        env.record_event(&pod, None, "DeviceGuardFailed", error.to_string());
    }
    let containers =
        env.client.list_pod(&pod.uid).await.map(|listing| listing.containers).unwrap_or_default();
    for container in containers.iter().filter(|c| c.state == cri::ContainerState::ContainerRunning as i32) {
        if let Some(name) = container.labels.get(CONTAINER_NAME) {
            added(state, name, &container.id, &env.devices.injection(&pod.uid, name)).await;
        }
    }
}

/// Takes over which devices the runtime added to a container by CDI.
pub async fn added(state: &PodState, name: &str, id: &str, injection: &DeviceInjection) {
    let (pod, env) = (state.pod(), &state.env);
    let Some(guards) = env.guards.as_ref().filter(|_| !injection.cdi.is_empty()) else { return };
    if guards.mode(&pod) == Enforcement::Off {
        return;
    }
    let added = match env.client.container_devices(id).await {
        Ok(found) => {
            let (uid, name) = (pod.uid.clone(), name.to_owned());
            let added = with_guards(env, &pod, move |guards, devices| {
                guards.add_runtime_devices(devices, &uid, &name, found)
            });
            added.await.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = added {
        env.record_event(&pod, Some((name, id)), "DeviceGuardFailed", error);
    }
}

/// An ordinary container runs: every init container has finished.
pub async fn initialised(state: &PodState) {
    let demand = PodDemand::of(&state.pod());
    if demand.containers.iter().any(|own| own.kind == ContainerKind::Init) {
        state.env.devices.release_surplus(&demand);
        state.env.admission.initialised(&demand.uid);
        // What is fewer cannot be refused.
        let _ = guard(state).await;
    }
}

/// Nothing of the pod is left, or nothing of it will run any more: what it was admitted with is for others,
/// too.
pub fn release(env: &Environment, uid: &str) {
    env.admission.release(uid);
    env.devices.release(uid);
    env.managers.release(uid);
    if let Some(guards) = &env.guards {
        guards.forget(uid);
    }
}

/// With a look at the runtime: what a damaged checkpoint has lost, and pods of the checkpoint that are no
/// more.
pub async fn reconcile(env: &Arc<Environment>, listing: &Listing) {
    if env.devices.is_recovering() {
        let ours = listing.containers.iter().filter(|container| env.ownership.has(&container.labels));
        env.devices.recovered(ours.filter_map(devices_of).collect());
    }
    if env.devices.stale().is_empty() && !env.managers.has_stale() {
        return;
    }
    // Also those of a kubelet: its pods have their devices for as long as they exist.
    if let Ok(all) = env.client.list().await {
        let there = |uid: &str| {
            all.sandboxes.iter().any(|sandbox| sandbox.labels.get(POD_UID).is_some_and(|own| own == uid))
        };
        env.devices.free_stale(|uid| !there(uid));
        env.managers.free_stale(|uid| !there(uid));
    }
}

/// Pod, container and what it has, of one that has not ended.
fn devices_of(
    container: &ListedContainer,
) -> Option<(String, String, BTreeMap<String, nodewarden_devices::DevicesPerNuma>)> {
    if container.state == cri::ContainerState::ContainerExited as i32 {
        return None;
    }
    let ids = ids_from_json(container.annotations.get(DEVICES)?)?;
    Some((container.labels.get(POD_UID)?.clone(), container.labels.get(CONTAINER_NAME)?.clone(), ids))
}

#[cfg(test)]
mod tests;
