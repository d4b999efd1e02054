//! Ending one container: its preStop hook, its signal, and KILL after the grace (kubelet: killContainer).

use std::time::{Duration, Instant};

use super::ContainerStage;
use super::KillReason;
use super::state::PodState;
use crate::container::{self, run_hook};
use crate::runtime::RuntimeError;

/// However long the hook took, the container gets this long after its signal (kubelet: minimumGracePeriodInSeconds).
const LEAST: Duration = Duration::from_secs(2);

/// What is to be ended.
pub struct Kill<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub reason: KillReason,
    pub message: &'a str,
    pub grace: Duration,
}

/// Ends a container and returns when it has ended. `turn` is waited for between the hook and the signal.
///
/// # Errors
/// The runtime refuses or is away.
pub async fn kill(
    state: &PodState,
    kill: &Kill<'_>,
    turn: impl Future<Output = ()>,
) -> Result<(), RuntimeError> {
    let Kill { id, name, reason, message, grace } = *kill;
    let pod = state.pod();
    let text = match message {
        "" => format!("Stopping container {name}"),
        message => format!("Stopping container {name}: {message}"),
    };
    state.env.tell(&pod, Some((name, id)), "Killing", text);
    state.update(|inner| inner.record.note_kill(name, id, reason));
    let begun = Instant::now();
    let runs = state
        .lock()
        .observed
        .containers
        .iter()
        .any(|seen| seen.id == id && seen.stage == ContainerStage::Running);
    if runs
        && !grace.is_zero()
        && let Some(hook) = container::pre_stop(&pod, name)
    {
        let ips = ips(state);
        if let Err(error) = run_hook(&hook, &state.env.client, id, &ips, Some(grace)).await {
            state.env.tell(&pod, Some((name, id)), "FailedPreStopHook", error.to_string());
        }
    }
    turn.await;
    let left =
        if grace.is_zero() { grace } else { grace.saturating_sub(begun.elapsed()).max(LEAST.min(grace)) };
    state.env.client.stop_container(id, left).await
}

/// The pod's addresses, or the node's when it has none of its own.
pub fn ips(state: &PodState) -> Vec<std::net::IpAddr> {
    let own = state.lock().observed.sandboxes.first().map(|sandbox| sandbox.ips.clone()).unwrap_or_default();
    if own.is_empty() { state.env.host_ips.clone() } else { own }
}
