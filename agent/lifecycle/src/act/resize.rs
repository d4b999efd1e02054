//! An in-place resize carried out: the pod's level grows, the runtime is told, the level shrinks (KEP-1287).

use std::time::Duration;

use tokio::sync::mpsc;

use crate::orders::Report;
use crate::state::PodState;
use nodewarden_admission::NoGrowth;
use nodewarden_model::ResizePending;
use nodewarden_pods::spec as container;

/// Between two tries of what the runtime or the kernel refuses (a memory limit below what is in use).
const AGAIN: Duration = Duration::from_secs(5);
/// How long the pod's own level is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the pod's level has the limits of `version`.
///
/// # Errors
/// It has not in time, or cannot; the time until the next try.
async fn level_is(state: &PodState, version: u64) -> Result<(), Duration> {
    if !state.env.settings.cgroups_per_qos {
        return Ok(());
    }
    let uid = state.pod().uid.clone();
    let mut places = state.env.places.clone();
    let written = places.wait_for(|places| places.get(&uid).is_some_and(|place| place.version >= version));
    match tokio::time::timeout(PATIENCE, written).await {
        Ok(Ok(places)) => match places.get(&uid).and_then(|place| place.problem.clone()) {
            None => Ok(()),
            Some(problem) => {
                drop(places);
                state.note(|inner| {
                    inner.resize = Some(ResizePending::Deferred(format!("the pod's cgroup: {problem}")))
                });
                Err(AGAIN)
            }
        },
        Ok(Err(_)) | Err(_) => Err(AGAIN),
    }
}

/// Tells the runtime a running container's resources.
///
/// # Errors
/// Not now; the time until the next try, with the reason shown.
pub async fn update(state: &PodState, id: &str, name: &str) -> Result<(), Duration> {
    let version = state.lock().version;
    level_is(state, version).await?;
    let pod = state.pod();
    let Some(own) = pod.container(name) else { return Ok(()) };
    let resources = container::container_resources(&pod, own, &state.env.host());
    match state.env.client.update_resources(id, resources).await {
        Ok(()) => {
            state.update(|inner| {
                inner.record.note_update(own);
                inner.resize = None;
            });
            state.env.tell(&pod, Some((name, id)), "Resized", "resources changed in place".to_owned());
            Ok(())
        }
        Err(error) => {
            let pending = Some(ResizePending::Deferred(error.to_string()));
            if state.lock().resize != pending {
                state.env.tell(&pod, Some((name, id)), "ResizeDeferred", error.to_string());
            }
            state.note(|inner| inner.resize = pending);
            Err(AGAIN)
        }
    }
}

/// Shows why the pod does not have the resources that it should have; `None`: it has them. One event for each new reason,
/// while the numbers in the message may change.
pub fn refused(state: &PodState, why: Option<&NoGrowth>) {
    let pending = why.map(NoGrowth::pending);
    let before = state.lock().resize.clone();
    if before == pending {
        return;
    }
    if let Some(pending) = &pending
        && before.is_none_or(|before| before.reason() != pending.reason())
    {
        let message = pending.message().to_owned();
        state.env.tell(&state.pod(), None, &format!("Resize{}", pending.reason()), message);
    }
    state.note(|inner| inner.resize = pending);
}

/// Tells the manager when every container has what the manifest says.
pub fn report_done(state: &PodState, reports: &mpsc::UnboundedSender<Report>) {
    let uid = {
        let mut inner = state.lock();
        if !inner.resizing {
            return;
        }
        inner.resizing = false;
        inner.pod.uid.clone()
    };
    // Nobody listens any more when the agent ends.
    let _ = reports.send(Report::Resized { uid });
}
