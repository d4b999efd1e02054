//! Ends containers and sandboxes by a signal of the agent's own. containerd starts `runc kill` for each, some
//! 7 ms of CPU time, and does not if the process has ended when it is asked to stop the container. It is
//! still asked each time, after the wait: it alone knows when a container is over, and it does what the agent
//! does not do (the network, containers of other runtimes).

use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use super::look;
use crate::decide::policy;
use crate::state::PodState;
use nodewarden_machine::cgroup::control::{FirstProcess, WatchedProcess};
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::blocking;

/// How long the runtime may take to notice what has ended, from the end of the process and from the removal
/// of its cgroup. Asked to stop it before, it fails or starts a program all the same.
const NOTICED: Duration = Duration::from_secs(1);
/// Between two questions whether it has.
const PAUSE: Backoff = Backoff::doubling(Duration::from_millis(4), Duration::from_millis(50));

/// A first process that has got its signal.
#[derive(Debug)]
struct Signalled {
    process: WatchedProcess,
    /// Taken once its cgroup was removed.
    removal: Option<oneshot::Receiver<()>>,
}

impl Signalled {
    /// Waits until the process has ended, for at most this time; then until the runtime has removed its
    /// cgroup and no longer has it as running. May be dropped and called again.
    ///
    /// # Errors
    /// The process cannot be waited for: it has not had its time.
    async fn ended<F: Future<Output = bool>>(
        &mut self,
        longest: Duration,
        runs: impl Fn() -> F,
    ) -> io::Result<()> {
        match timeout(longest, self.process.ended()).await {
            Ok(ended) => ended?,
            // It has had its time.
            Err(_) => return Ok(()),
        }
        if let Some(removal) = self.removal.as_mut() {
            let _ = timeout(NOTICED, removal).await;
            self.removal = None;
        }
        let noticed = async {
            let mut pause = PAUSE;
            tokio::time::sleep(pause.advance()).await;
            while runs().await {
                tokio::time::sleep(pause.advance()).await;
            }
        };
        let _ = timeout(NOTICED, noticed).await;
        Ok(())
    }
}

/// The stop signal of one container, which it gets once however often its time is cut.
#[derive(Debug, Default)]
pub struct StopSignal {
    /// `None` until it was tried; then what has got the signal, if anything.
    sent: Option<Option<Signalled>>,
}

impl StopSignal {
    /// Sends the container its stop signal, and waits for its end. Returns after how long the runtime is to
    /// kill it: `grace` if it is for the runtime to send the signal, 0 if the container has had its time.
    pub async fn give(&mut self, state: &PodState, id: &str, name: &str, grace: Duration) -> Duration {
        if grace.is_zero() {
            return grace;
        }
        if self.sent.is_none() {
            self.sent = Some(send_stop(state, id, name).await);
        }
        let Some(Some(signalled)) = &mut self.sent else { return grace };
        match signalled.ended(grace, || look::still_runs(state, id)).await {
            Ok(()) => Duration::ZERO,
            Err(error) => {
                debug!("waiting for the first process of {id}: {error}");
                grace
            }
        }
    }
}

async fn send_stop(state: &PodState, id: &str, name: &str) -> Option<Signalled> {
    let pod = state.pod();
    let spec = policy::spec_of(&pod, name)?;
    // The runtime may know it by another number, or not at all.
    if spec.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.stop_signal.is_some()) {
        return None;
    }
    let image = state.read().observed.containers.iter().find(|seen| *seen.id == *id)?.image_id.clone();
    let signal = state.env.stop_signals.of(&state.env.client, &image).await?;
    send(state, id, signal).await
}

/// Kills the first process of a sandbox whose containers have ended, and waits for its end. Does nothing
/// where that is not known to be the process that the runtime would kill.
pub async fn kill_sandbox(state: &PodState, id: &str) {
    if let Some(mut signalled) = send(state, id, Signal::SIGKILL).await {
        // A process that has SIGKILL may wait in the kernel; the runtime is asked next in any case.
        let _ = signalled.ended(NOTICED, || look::is_still_ready(state, id)).await;
    }
}

/// Sends a signal to the first process of a container or sandbox. `None` if it is for the runtime to do it:
/// the kernel does not report removals, or there is no such process.
async fn send(state: &PodState, id: &str, signal: Signal) -> Option<Signalled> {
    if !state.env.removals_reported {
        return None;
    }
    let place = state.env.places.borrow().get(&state.pod().uid).map(|place| place.path.clone())?;
    let (cgroups, own) = (state.env.cgroups.clone(), id.to_owned());
    // Before the signal, or a removal soon after it would be missed.
    let removal = state.removals.expect(id);
    let find = move || FirstProcess::find(&cgroups, &place, &own);
    let first = blocking::KILLS.run(find).await.ok()?.ok()??;
    // First, so that nothing that has got the signal is lost sight of.
    let process = first.watch().ok()?;
    if let Err(error) = process.signal(signal) {
        debug!("{signal} to the first process of {id}: {error}");
        return None;
    }
    Some(Signalled { process, removal: Some(removal) })
}
