//! Ending one container: its preStop hook, its signal, and KILL after the grace (kubelet: killContainer).

use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::permits::with_permit;
use super::probing;
use super::signal::StopSignal;
use crate::decide::observed::ContainerStage;
use crate::decide::plan::KillReason;
use crate::state::PodState;
use nodewarden_cri::RuntimeError;
use nodewarden_pods::spec;
use nodewarden_pods::spec::run_hook;

/// However long the hook took, the container gets this long after its signal (kubelet:
/// minimumGracePeriodInSeconds).
const LEAST: Duration = Duration::from_secs(2);
/// A container that needs longer lets the next one be asked.
const PERMIT: Duration = Duration::from_millis(250);

/// What is to be ended.
pub struct Kill<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub reason: KillReason,
    pub message: &'a str,
    pub grace: Duration,
    /// Of those of its pod that end together.
    pub permits: Option<&'a Semaphore>,
}

/// Ends a container and returns when it has ended. `turn` is awaited between the hook and the signal. When
/// the pod gets less time meanwhile, the hook, the wait and the time after the signal get shorter too.
///
/// # Errors
/// The runtime refuses or is away.
pub async fn kill(
    state: &PodState,
    kill: &Kill<'_>,
    turn: impl Future<Output = ()>,
) -> Result<(), RuntimeError> {
    let Kill { id, name, reason, message, grace, permits } = *kill;
    let pod = state.pod();
    let text = match message {
        "" => format!("Stopping container {name}"),
        // The kubelet's words as they are.
        message if reason.is_by_probe() => message.to_owned(),
        message => format!("Stopping container {name}: {message}"),
    };
    state.env.record_event(&pod, Some((name, id)), "Killing", text);
    state.update(|inner| inner.record.note_kill(name, id, reason));
    if reason.is_by_probe() {
        // However it exits then, the next agent must know why.
        state.saved().await;
    }
    let begun = Instant::now();
    let mut due = Due::new(state, grace);
    if runs(state, id)
        && !grace.is_zero()
        && let Some(hook) = spec::pre_stop(&pod, name)
    {
        let ips = ips(state);
        let run = run_hook(&hook, &state.env.client, id, &ips, Some(grace));
        if let Some(Err(error)) = due.as_long_as(state, run).await {
            state.env.record_event(&pod, Some((name, id)), "FailedPreStopHook", error.to_string());
        }
    }
    due.as_long_as(state, turn).await;
    let mut signal = StopSignal::default();
    loop {
        let left = match due.cut {
            true => due.left(),
            false if grace.is_zero() => grace,
            false => grace.saturating_sub(begun.elapsed()).max(LEAST.min(grace)),
        };
        let stop = async {
            let stop = with_permit(&state.env.ends, PERMIT, async {
                let left = signal.give(state, id, name, left).await;
                state.env.client.stop_container(id, left).await
            });
            match permits {
                Some(permits) => with_permit(permits, PERMIT, stop).await,
                None => stop.await,
            }
        };
        match state.unless_sooner(due.at, stop).await {
            Some(stopped) => break stopped?,
            // Asked again with less time: the runtime takes the shorter one.
            None => due.cut(state),
        }
    }
    probing::exited(state, id);
    Ok(())
}

/// Instead of a grace period that no clock can hold.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The time by which a container has to have ended; earlier when its pod is evicted meanwhile.
struct Due {
    at: Instant,
    /// It was moved forward.
    cut: bool,
}

impl Due {
    fn new(state: &PodState, grace: Duration) -> Self {
        // A grace beyond what the clock can hold is none.
        let at = Instant::now().checked_add(grace).unwrap_or_else(|| Instant::now() + LONGEST);
        Self { at: state.due_by(at), cut: false }
    }

    fn cut(&mut self, state: &PodState) {
        *self = Self { at: state.due_by(self.at), cut: true };
    }

    fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// The future's result; `None` where it has to end before, because there is less time than there was.
    async fn as_long_as<T>(&mut self, state: &PodState, future: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(future);
        loop {
            let step = state.unless_sooner(self.at, &mut future);
            let done = match self.cut {
                true => tokio::time::timeout(self.left(), step).await.ok()?,
                false => step.await,
            };
            if done.is_some() {
                return done;
            }
            self.cut(state);
        }
    }
}

/// Whether the container ran at the last look.
pub fn runs(state: &PodState, id: &str) -> bool {
    let inner = state.read();
    inner.observed.containers.iter().any(|seen| seen.id == id && seen.stage == ContainerStage::Running)
}

/// The pod's addresses: the node's for one on its network. A pod with a network of its own may not have any
/// yet.
pub fn ips(state: &PodState) -> Vec<std::net::IpAddr> {
    let inner = state.read();
    if inner.pod.host_network {
        return state.env.host_ips();
    }
    inner.observed.sandboxes.first().map(|sandbox| sandbox.ips.clone()).unwrap_or_default()
}
