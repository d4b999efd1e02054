//! One turn of a worker: look, decide, carry out.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::debug;

use super::containers;
use super::containers::StartError;
use super::counters;
use super::images::ImageError;
use super::kill;
use super::kill::Kill;
use super::sandbox;
use super::{admitting, devices, evict, look, objects, reports, resize};
use crate::decide::observed::ContainerStage;
use crate::decide::phase::Trouble;
use crate::decide::plan::{Action, KillReason};
use crate::decide::{backoff, grace, plan, policy};
use crate::state::{Failed, PodState};
use nodewarden_cri::RuntimeError;
use nodewarden_manifest::ContainerKind;
use nodewarden_model::backoff::Backoff;
use nodewarden_model::{PodReason, Waiting, WaitingReason};

/// How long to wait before a runtime that is not available is asked again.
const AWAY: Duration = Duration::from_millis(500);
/// How long to wait after a sandbox could not be made.
const SANDBOX_AGAIN: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(8));

/// What follows a turn.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Something was done: decide again, on what is known.
    Again,
    /// Wait for news, at most so long.
    Wait(Option<Duration>),
    /// Wait for a permit to start, then decide again. Not in the turn: a thousand pods may wait, and a turn
    /// under way takes 20 kB.
    WaitToStart,
}

/// Does what is due for the pod now. `fresh`: the runtime is asked first.
pub async fn turn(state: &PodState, fresh: bool) -> Next {
    let looked = if fresh { look::refresh(state).await } else { Ok(()) };
    state.mark_seen();
    // Held, so that each step of the turn does not decode it again.
    let _decoded = state.pod().spec();
    if let Err(error) = looked {
        return runtime_failed(state, &error);
    }
    let unwritten = Box::pin(objects::refresh(state)).await;
    let now = state.now();
    let former = sandbox::former(state);
    let (pod, decided, changed) = {
        let inner = state.read();
        let published = inner.published();
        let leave = former.as_ref().and_then(|_| plan::leave(&inner.observed));
        let leaves = leave.is_some();
        let decided = leave.unwrap_or_else(|| {
            plan::plan(&inner.pod, &inner.observed, &inner.record, published, &state.env.pods, now)
        });
        let former = former.filter(|_| leaves);
        let changed = reports::sandbox_changed(former.as_deref(), &decided, inner.sandbox_changed);
        (inner.pod.clone(), decided, changed)
    };
    if let Some(message) = changed {
        state.env.record_event(&pod, None, "SandboxChanged", message);
        state.set(|inner| inner.sandbox_changed = true);
    }
    debug!(pod = pod.name, ?decided, "decided");
    state.note(|inner| {
        let backs_off = |waiting: &Waiting| waiting.reason == WaitingReason::CrashLoopBackOff;
        for (name, waiting) in decided.waiting.iter().filter(|(_, waiting)| backs_off(waiting)) {
            if !inner.plan.waiting.get(name).is_some_and(backs_off) {
                state.env.record_event(&pod, Some((name, "")), "BackOff", waiting.message.clone());
            }
        }
        inner.plan.clone_from(&decided);
    });
    // Nothing of it runs any more, and nothing will: its devices are for others (kubelet: only active pods
    // have any).
    if decided.finished.is_some() && decided.actions.is_empty() {
        devices::release(&state.env, &pod.uid);
    }
    if decided.finished.is_none() {
        evict::end_if_over(state);
        if state.is_ending() {
            return Next::Again;
        }
        admitting::seen(state);
    }
    let wake = decided.wake.map(|at| until(at, now));
    let mut wake = [wake, unwritten].into_iter().flatten().min();
    let mut done = false;
    for action in &decided.actions {
        if state.is_ending() {
            return Next::Again;
        }
        match carry_out(state, action).await {
            Outcome::Done => done = true,
            Outcome::Later(wait) => wake = Some(wake.map_or(wait, |wake| wake.min(wait))),
            Outcome::Stop(wait) => return Next::Wait(Some(wait)),
            Outcome::WaitToStart => return Next::WaitToStart,
        }
    }
    if done { Next::Again } else { Next::Wait(wake) }
}

/// How one action went.
enum Outcome {
    Done,
    /// Not this one now; the others may go on.
    Later(Duration),
    /// Nothing more for so long.
    Stop(Duration),
    /// Nothing more before there is a permit to start.
    WaitToStart,
}

async fn carry_out(state: &PodState, action: &Action) -> Outcome {
    let client = &state.env.client;
    let result = match action {
        // On the heap: in a debug build they are together larger than a thread's stack.
        Action::CreateSandbox { attempt } => return Box::pin(create_sandbox(state, *attempt)).await,
        Action::StartContainer { name, attempt } => {
            return Box::pin(start(state, name, Some(*attempt), "")).await;
        }
        Action::FinishStart { id, name } => return Box::pin(start(state, name, None, id)).await,
        Action::StopSandbox { id } => Box::pin(stop_sandbox(state, id)).await,
        Action::RemoveSandbox { id } => client.remove_sandbox(id).await.map(|()| {
            state.note(|inner| {
                inner.observed.sandboxes.retain(|sandbox| sandbox.id != *id);
                inner.observed.containers.retain(|seen| seen.sandbox != *id);
            });
        }),
        Action::RemoveContainer { id } => client.remove_container(id).await.map(|()| {
            state.note(|inner| inner.observed.containers.retain(|seen| seen.id != *id));
        }),
        Action::KillContainer { id, name, reason, message } => {
            if reason.is_by_probe() {
                // Between the plan and this, others were started or ended: how it ends itself is another
                // thing.
                match look::refresh(state).await {
                    Ok(()) if kill::runs(state, id) => {}
                    Ok(()) => return Outcome::Done,
                    Err(error) => return failed(state, &error),
                }
            }
            let grace = grace::grace(&state.pod(), name, *reason);
            let end = Kill { id, name, reason: *reason, message, grace, permits: None };
            let killed = Box::pin(kill::kill(state, &end, async {})).await;
            // A look shows how it ended.
            return match killed {
                Ok(()) => match look::refresh(state).await {
                    Ok(()) => Outcome::Done,
                    Err(error) => failed(state, &error),
                },
                Err(error) => failed(state, &error),
            };
        }
        Action::UpdateResources { id, name } => {
            return match Box::pin(resize::update(state, id, name)).await {
                Ok(()) => Outcome::Done,
                Err(wait) => Outcome::Later(wait),
            };
        }
    };
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => failed(state, &error),
    }
}

async fn create_sandbox(state: &PodState, attempt: u32) -> Outcome {
    if !admitting::admit(state).await || !devices::admit(state).await {
        return Outcome::Done;
    }
    if !state.may_start() {
        return Outcome::WaitToStart;
    }
    match Box::pin(sandbox::create(state, attempt)).await {
        Ok(()) => {
            state.note(|inner| {
                inner.trouble = None;
                inner.sandbox_failures = 0;
                inner.sandbox_changed = false;
            });
            Outcome::Done
        }
        Err(sandbox::SandboxError::Interrupted) => Outcome::Done,
        Err(sandbox::SandboxError::Runtime(error)) if error.is_unavailable() => failed(state, &error),
        Err(error) => {
            let (reason, message) = (error.reason(), error.to_string());
            let mut times = 0;
            let mut news = true;
            state.note(|inner| {
                news = inner.trouble.as_ref().is_none_or(|before| before.message != message);
                inner.trouble = Some(Box::new(Trouble { reason: reason.clone(), message: message.clone() }));
                times = inner.sandbox_failures;
                inner.sandbox_failures += 1;
            });
            if news {
                state.env.record_event(&state.pod(), None, &reason.to_string(), message);
            }
            // What is half there shows in a fresh look.
            let _ = look::refresh(state).await;
            Outcome::Stop(SANDBOX_AGAIN.nth(times))
        }
    }
}

/// Starts a container, or finishes the start of one that is there.
async fn start(state: &PodState, name: &str, attempt: Option<u32>, id: &str) -> Outcome {
    if let Some(failed) = state.read().failed.get(name) {
        let wait = failed.again.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            return Outcome::Later(wait);
        }
    }
    let kind = state.pod().container(name).map_or(ContainerKind::Regular, |container| container.kind);
    counters::container_started(kind.into());
    let started = match attempt {
        Some(attempt) => Box::pin(containers::start(state, name, attempt)).await,
        None => Box::pin(containers::finish(state, id, name)).await,
    };
    match started {
        Ok(()) => {
            state.note(|inner| {
                inner.failed.remove(name);
                inner.trouble = None;
            });
            Outcome::Done
        }
        Err(StartError::Image(ImageError::Interrupted)) => Outcome::Done,
        Err(StartError::PostStart { id, source }) => {
            let message = source.to_string();
            let grace = nodewarden_manifest::grace(&state.pod());
            let end = Kill {
                id: &id,
                name,
                reason: KillReason::PostStart,
                message: &message,
                grace,
                permits: None,
            };
            match Box::pin(kill::kill(state, &end, async {})).await {
                Ok(()) => drop(look::refresh(state).await),
                Err(error) => return failed(state, &error),
            }
            Outcome::Done
        }
        Err(error) if error.is_unavailable() => {
            counters::container_failed(kind.into(), error.reason().name());
            let trouble = Trouble { reason: PodReason::RuntimeNotReady, message: error.to_string() };
            state.note(|inner| inner.trouble = Some(Box::new(trouble)));
            Outcome::Stop(AWAY)
        }
        Err(error) => {
            counters::container_failed(kind.into(), error.reason().name());
            Outcome::Later(not_started(state, name, &error).await)
        }
    }
}

/// Notes a failed start; the time until it is tried again.
async fn not_started(state: &PodState, name: &str, error: &StartError) -> Duration {
    let message = error.to_string();
    let times = state.read().failed.get(name).map_or(0, |failed| failed.times);
    let wait = backoff::delay(times + 1, &state.env.pods);
    let reason = match (error.reason(), times) {
        (WaitingReason::ErrImagePull, 1..) => WaitingReason::ImagePullBackOff,
        (reason, _) => reason,
    };
    let pod = state.pod();
    let image = policy::spec_of(&pod, name).and_then(|spec| spec.image.clone()).unwrap_or_default();
    for (event, message) in reports::not_started(reason, &message, &image, wait) {
        state.env.record_event(&pod, Some((name, "")), event, message);
    }
    let again = Instant::now() + wait;
    state.note(|inner| {
        let waiting = Waiting { reason, message };
        inner.failed.insert(name.to_owned(), Failed { waiting, times: times + 1, again });
    });
    // A container that was made and did not start is there.
    let _ = look::refresh(state).await;
    wait
}

async fn stop_sandbox(state: &PodState, id: &str) -> Result<(), RuntimeError> {
    let running: Vec<_> = {
        let inner = state.read();
        let of_it = inner.observed.containers.iter().filter(|seen| seen.sandbox == *id);
        of_it.filter(|seen| seen.stage == ContainerStage::Running).cloned().collect()
    };
    let grace = nodewarden_manifest::grace(&state.pod());
    for seen in running {
        let end = Kill {
            id: &seen.id,
            name: &seen.name,
            reason: KillReason::NotWanted,
            message: "its sandbox is gone or changed",
            grace,
            permits: None,
        };
        kill::kill(state, &end, async {}).await?;
    }
    state.env.client.stop_sandbox(id).await?;
    state.note(|inner| {
        for sandbox in inner.observed.sandboxes.iter_mut().filter(|sandbox| sandbox.id == id) {
            sandbox.ready = false;
        }
    });
    look::refresh(state).await
}

fn failed(state: &PodState, error: &RuntimeError) -> Outcome {
    match runtime_failed(state, error) {
        Next::Wait(Some(wait)) => Outcome::Stop(wait),
        _ => Outcome::Stop(AWAY),
    }
}

/// Notes that the runtime refused a call or is not available.
fn runtime_failed(state: &PodState, error: &RuntimeError) -> Next {
    let reason = if error.is_unavailable() { PodReason::RuntimeNotReady } else { PodReason::RuntimeError };
    let message = error.to_string();
    let mut news = false;
    state.note(|inner| {
        news = inner.trouble.as_ref().is_none_or(|before| before.reason != reason);
        inner.trouble = Some(Box::new(Trouble { reason: reason.clone(), message: message.clone() }));
    });
    if news {
        state.env.record_event(&state.pod(), None, &reason.to_string(), message);
    }
    Next::Wait(Some(AWAY * if error.is_unavailable() { 1 } else { 4 }))
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    at.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}
