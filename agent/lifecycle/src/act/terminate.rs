//! The end of a pod: hooks, TERM, grace, KILL, sandbox, volumes (kubelet: SyncTerminatingPod,
//! SyncTerminatedPod). Its logs stay for the garbage collector.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tracing::warn;

use super::kill;
use super::kill::Kill;
use super::permits::with_permit;
use super::{dying, evict, look, probing, signal};
use crate::decide::observed::{ContainerSeen, ContainerStage};
use crate::decide::phase::Trouble;
use crate::decide::plan::KillReason;
use crate::decide::plan::end_order;
use crate::set_aside::CLEAN_AGAIN;
use crate::state::PodState;
use nodewarden_cri::RuntimeError;
use nodewarden_eviction::kill::{Signalled, kill as kill_now};
use nodewarden_manifest::Pod;
use nodewarden_model::PodReason;
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::blocking;

/// How long to wait after containers or sandboxes could not be ended.
const END_AGAIN: Backoff = Backoff::doubling(Duration::from_millis(300), Duration::from_millis(2400));
/// After this many failures processes are killed without the runtime.
const PATIENCE: u32 = 3;
/// Containers of one pod whose end is asked for at a time. More than 32 processes that end at once in a pod
/// are what containerd's shim loses track of, and then nothing of the pod can be ended any more (its reaper's
/// `bufferSize`).
const KILLS: usize = 8;
/// A sandbox that needs longer lets another one go.
const SANDBOX_PERMIT: Duration = Duration::from_secs(2);

/// The event's message when a pod has ended.
const DONE: &str = "every container has ended, volumes are clean";
/// The same if its volumes were set aside.
const DONE_SET_ASIDE: &str = "every container has ended, volumes are set aside";

/// Ends the pod, however long it takes, and returns when nothing of it is left but its cgroup, its record and
/// its logs.
pub async fn terminate(state: &PodState) {
    dying::wait(state).await;
    let mut failures: u32 = 0;
    while let Err(error) = end(state).await {
        let message = error.to_string();
        show(state, PodReason::FailedKillPod, &message);
        if failures == 0 {
            state.env.record_event(&state.pod(), None, &PodReason::FailedKillPod.to_string(), message);
        }
        tokio::time::sleep(END_AGAIN.nth(failures)).await;
        failures += 1;
        if failures >= PATIENCE && !error.is_unavailable() && left(state).is_zero() {
            kill_rest(state).await;
        }
    }
    clean(state).await;
}

/// Removes the pod's directory. After a while without success it is set aside, so that the pod's name and
/// resources are free for the next one.
async fn clean(state: &PodState) {
    let (pod, set_aside) = (state.pod(), &state.env.set_aside);
    let pod_dir = state.env.paths(&pod).pod_dir;
    let end = Instant::now() + set_aside.patience();
    let mut failures: u32 = 0;
    while let Err(message) = set_aside.clean(pod_dir.clone(), end - Instant::now()).await {
        show(state, PodReason::FailedCleanVolumes, &message);
        if failures == 0 {
            let reason = PodReason::FailedCleanVolumes.to_string();
            state.env.record_event(&pod, None, &reason, message.clone());
        }
        let again = CLEAN_AGAIN.nth(failures);
        if Instant::now() + again >= end {
            let place = set_aside.put(&pod.uid, message.clone()).await;
            let message =
                format!("the volumes are set aside at {} and tried again: {message}", place.display());
            warn!(pod = %format_args!("{}/{}", pod.namespace, pod.name), "{message}");
            state.env.record_event(&pod, None, "VolumesSetAside", message);
            state.note(|inner| inner.trouble = None);
            return;
        }
        tokio::time::sleep(again).await;
        failures += 1;
    }
}

fn show(state: &PodState, reason: PodReason, message: &str) {
    let message = message.to_owned();
    state.note(|inner| inner.trouble = Some(Box::new(Trouble { reason, message })));
}

/// The event's message when the pod has ended.
pub fn done(state: &PodState) -> &'static str {
    if state.env.set_aside.has(&state.pod().uid) { DONE_SET_ASIDE } else { DONE }
}

/// Removes the record and the status of a pod that has ended for good.
pub async fn forget(state: &PodState) {
    probing::forget(state);
    // Whatever was saved before is on disk with the next line, and nothing comes after it.
    state.set(|inner| inner.forgotten = true);
    state.saved().await;
    let (store, uid) = (state.env.store.clone(), state.pod().uid.clone());
    let removed = blocking::STATE_FILES.run(move || store.remove(&uid)).await;
    if let Ok(Err(error)) = removed {
        warn!("{error}");
    }
    let was_away = state.read().record.evicted().is_some_and(|evicted| evicted.gone.is_some());
    if !was_away {
        state.env.record_event(&state.pod(), None, "Terminated", done(state).to_owned());
    }
    state.env.status.remove(&state.pod().uid);
}

/// A runtime that takes a container for ended and cannot remove it for its running task does not get out of
/// that by itself (containerd 1.6): what runs in the pod's own cgroup has had its time and is killed there.
async fn kill_rest(state: &PodState) {
    let pod = state.pod();
    let Some(place) = state.env.places.borrow().get(&pod.uid).map(|place| place.path.clone()) else { return };
    let cgroups = state.env.cgroups.clone();
    let killed = blocking::KILLS.run(move || kill_now(&cgroups, &place, None)).await;
    match killed {
        Ok(Ok(Signalled { processes: 0, .. })) | Err(_) => {}
        Ok(Ok(Signalled { processes, .. })) => {
            let message = format!("{processes} processes that the runtime did not end were killed");
            state.env.record_event(&pod, None, "Killing", message);
        }
        Ok(Err(error)) => warn!("{error}"),
    }
}

/// How long the pod still has.
fn left(state: &PodState) -> Duration {
    let now = state.now();
    state.read().record.left(now)
}

async fn end(state: &PodState) -> Result<(), RuntimeError> {
    look::refresh(state).await?;
    evict::note_finished(state);
    let grace = left(state);
    let (pod, observed) = {
        let inner = state.read();
        (inner.pod.clone(), inner.observed.clone())
    };
    if !grace.is_zero() {
        // However it ends, the next agent must know why; what has no time does not wait for a disk either.
        state.saved().await;
    }
    let running: Vec<ContainerSeen> = observed
        .containers
        .iter()
        .filter(|seen| matches!(seen.stage, ContainerStage::Running | ContainerStage::Unknown))
        .cloned()
        .collect();
    kill_all(state, &pod, &running, grace).await?;
    for sandbox in &observed.sandboxes {
        let stop = async {
            if sandbox.ready {
                signal::kill_sandbox(state, &sandbox.id).await;
            }
            state.env.client.stop_sandbox(&sandbox.id).await
        };
        with_permit(&state.env.ends, SANDBOX_PERMIT, stop).await?;
    }
    // How they ended is recorded before they are removed.
    look::at(state, &running).await;
    for sandbox in &observed.sandboxes {
        with_permit(&state.env.ends, SANDBOX_PERMIT, state.env.client.remove_sandbox(&sandbox.id)).await?;
    }
    Ok(())
}

/// Regular and init containers at once; each sidecar after those that follow it (KEP-753).
async fn kill_all(
    state: &PodState,
    pod: &Pod,
    running: &[ContainerSeen],
    grace: Duration,
) -> Result<(), RuntimeError> {
    let order = end_order(pod);
    let rank = |seen: &ContainerSeen| order.iter().position(|names| names.contains(&seen.name)).unwrap_or(0);
    // How many of each rank are still there.
    let mut left: BTreeMap<usize, usize> = BTreeMap::new();
    for seen in running {
        *left.entry(rank(seen)).or_default() += 1;
    }
    let (counts, left) = watch::channel(left);
    let permits = Semaphore::new(KILLS);
    let kills = running.iter().map(|seen| {
        let own = rank(seen);
        let (mut left, counts, permits) = (left.clone(), &counts, Some(&permits));
        async move {
            let turn = async {
                let before = |left: &BTreeMap<usize, usize>| left.range(..own).all(|(_, count)| *count == 0);
                let _ = tokio::time::timeout(grace, left.wait_for(before)).await;
            };
            let (id, name) = (seen.id.as_str(), seen.name.as_str());
            let end = Kill { id, name, reason: KillReason::PodEnds, message: "", grace, permits };
            let killed = kill::kill(state, &end, turn).await;
            counts.send_modify(|left| {
                if let Some(count) = left.get_mut(&own) {
                    *count = count.saturating_sub(1);
                }
            });
            killed
        }
    });
    let mut first = Ok(());
    for killed in futures_util::future::join_all(kills).await {
        if first.is_ok() {
            first = killed;
        }
    }
    first
}

#[cfg(test)]
mod tests;
