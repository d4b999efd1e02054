//! The end of a pod: hooks, TERM, grace, KILL, sandbox, volumes (kubelet: SyncTerminatingPod, SyncTerminatedPod). Its
//! logs stay for the garbage collector.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use super::kill::{self, Kill};
use super::plan::end_order;
use super::state::PodState;
use super::{ContainerSeen, ContainerStage, KillReason, exits, look};
use crate::pod::Pod;
use crate::runtime::RuntimeError;
use crate::volume;

/// Between two tries of what failed, doubling to ten times as much.
const AGAIN: Duration = Duration::from_millis(300);

/// Ends the pod, however long it takes, and returns when nothing of it is left but its cgroup and its logs.
pub async fn terminate(state: &PodState) {
    let mut failures: u32 = 0;
    while let Err(error) = end(state).await {
        let message = error.to_string();
        state.note(|inner| inner.trouble = Some(("FailedKillPod".into(), message.clone())));
        if failures == 0 {
            state.env.tell(&state.pod(), None, "FailedKillPod", message);
        }
        tokio::time::sleep(AGAIN * (1 << failures.min(3))).await;
        failures += 1;
    }
    let home = state.env.paths(&state.pod()).home;
    let mut failures: u32 = 0;
    loop {
        let place = home.clone();
        let cleaned = tokio::task::spawn_blocking(move || volume::clean(&place)).await;
        let message = match cleaned {
            Ok(Ok(())) | Err(_) => break,
            Ok(Err(error)) => error.to_string(),
        };
        state.note(|inner| inner.trouble = Some(("FailedCleanVolumes".into(), message.clone())));
        if failures == 0 {
            state.env.tell(&state.pod(), None, "FailedCleanVolumes", message);
        }
        tokio::time::sleep(AGAIN * (1 << failures.min(5))).await;
        failures += 1;
    }
    state.saved().await;
    let (store, uid) = (state.env.store.clone(), state.pod().uid.clone());
    let removed = tokio::task::spawn_blocking(move || store.remove(&uid)).await;
    if let Ok(Err(error)) = removed {
        warn!("{error}");
    }
    state.env.tell(
        &state.pod(),
        None,
        "Terminated",
        "every container has ended, volumes are clean".to_owned(),
    );
    state.env.board.take_down(&state.pod().uid);
}

async fn end(state: &PodState) -> Result<(), RuntimeError> {
    look::refresh(state).await?;
    let (pod, grace, observed) = {
        let inner = state.lock();
        let ending = inner.record.ending.as_ref();
        let grace = ending.map_or(Duration::ZERO, |ending| {
            let past = Timestamp::now().duration_since(ending.since);
            Duration::from_secs(ending.grace_seconds).saturating_sub(past.try_into().unwrap_or_default())
        });
        (inner.pod.clone(), grace, inner.observed.clone())
    };
    let running: Vec<ContainerSeen> = observed
        .containers
        .iter()
        .filter(|seen| matches!(seen.stage, ContainerStage::Running | ContainerStage::Unknown))
        .cloned()
        .collect();
    kill_all(state, &pod, &running, grace).await?;
    for sandbox in &observed.sandboxes {
        state.env.client.stop_sandbox(&sandbox.id).await?;
    }
    // How they ended is told before they are forgotten.
    if !running.is_empty() && look::refresh(state).await.is_ok() {
        exits::record(state).await;
    }
    for sandbox in &observed.sandboxes {
        state.env.client.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

/// Ordinary and init containers at once; each sidecar after those that follow it (KEP-753).
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
    let (told, left) = watch::channel(left);
    let kills = running.iter().map(|seen| {
        let own = rank(seen);
        let (mut left, told) = (left.clone(), &told);
        async move {
            let turn = async {
                let before = |left: &BTreeMap<usize, usize>| left.range(..own).all(|(_, count)| *count == 0);
                let _ = tokio::time::timeout(grace, left.wait_for(before)).await;
            };
            let end =
                Kill { id: &seen.id, name: &seen.name, reason: KillReason::PodEnds, message: "", grace };
            let killed = kill::kill(state, &end, turn).await;
            told.send_modify(|left| {
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
