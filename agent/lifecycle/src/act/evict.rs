//! Carries out the end of a pod: for good, or by an eviction or preemption, after which it waits and starts
//! again.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::inbox::News;
use super::{counters, devices, probing, resize, terminate};
use crate::decide::evicted::EndingChange;
use crate::decide::observed::Observed;
use crate::decide::plan::Plan;
use crate::decide::{backoff, plan};
use crate::orders::{Inbox, Report};
use crate::record::{Ending, Record};
use crate::state::{Inner, PodState};
use nodewarden_eviction::{Eviction, EvictionReason};
use nodewarden_model::{PodPhase, PodReason};

/// Takes the order to evict or preempt: from now on nothing of the pod is started, and what is under way for
/// it stops.
pub fn evict(state: &PodState, eviction: &Eviction) {
    let pod = state.pod();
    let own = nodewarden_manifest::grace(&pod);
    let mut taken = EndingChange::Unchanged;
    state.update(|inner| {
        let finished = inner.plan.finished.is_some();
        taken = inner.record.evict(eviction, own, finished, Timestamp::now());
        inner.killed = eviction.killed;
    });
    match taken {
        EndingChange::Started => {
            state.env.record_event(&pod, None, &eviction.reason.to_string(), eviction.message.clone());
            probing::stop(state);
        }
        EndingChange::Shortened => {
            let message = format!("Less time for its end: {}", eviction.message);
            state.env.record_event(&pod, None, "Killing", message);
        }
        EndingChange::Unchanged => {}
    }
    state.interrupt();
}

/// Takes the order to end for good: as [`evict`], without a way back.
pub fn end(state: &PodState, ending: Ending) {
    let (pod, why) = (state.pod(), ending.why.clone());
    let mut change = EndingChange::Unchanged;
    state.update(|inner| change = inner.record.end(ending));
    match change {
        EndingChange::Started => {
            state.env.record_event(&pod, None, "Killing", format!("Stopping pod: {why}"));
            probing::stop(state);
        }
        // The last deletion of a pod that has ended gives it no time.
        EndingChange::Shortened if !state.read().ended => {
            state.env.record_event(&pod, None, "Killing", format!("Less time for its end: {why}"));
        }
        EndingChange::Shortened | EndingChange::Unchanged => {}
    }
    state.interrupt();
}

/// Takes over that a pod of the API server is rejected at admission (kubelet `rejectPod`): it fails and never
/// starts.
pub fn reject(state: &PodState, reason: &PodReason, message: &str) {
    state.env.record_event(&state.pod(), None, &reason.to_string(), message.to_owned());
    let reason = EvictionReason::Other(reason.to_string());
    let message = format!("Pod was rejected: {message}");
    let rejection = Eviction { reason, message, grace: None, killed: false, condition: None };
    state.update(|inner| {
        inner.trouble = None;
        inner.record.evict(&rejection, Duration::ZERO, false, Timestamp::now());
        inner.record.admitted = false;
    });
    state.interrupt();
}

/// Ends a pod that the API server has as succeeded or failed and that has not ended by itself (kubelet: a
/// terminal phase of the API server is final).
pub fn end_if_over(state: &PodState) {
    let Some(over) = state.set(|inner| inner.over.take()) else { return };
    let reason = EvictionReason::Other(over.reason);
    evict(state, &Eviction { reason, message: over.message, grace: None, killed: false, condition: None });
}

/// Nothing is left of a pod that is being deleted at the API server: shows it as ended, until the API server
/// no longer has it. `None` when the agent ends.
pub async fn wait_until_deleted(
    state: &PodState,
    orders: &mut Inbox,
    reports: &mpsc::UnboundedSender<Report>,
) -> Option<()> {
    if state.read().unwanted {
        return Some(());
    }
    gone(state);
    state.note(|inner| inner.ended = true);
    let _ = reports.send(Report::Evicted { uid: state.pod().uid.clone() });
    while !state.read().unwanted {
        resize::report_done(state, reports);
        News::default().take(state, orders.recv().await?);
    }
    Some(())
}

/// Notes that a pod had succeeded before it was evicted, which only the look after the order shows: it does
/// not start again.
pub fn note_finished(state: &PodState) {
    state.save(|inner| {
        let finished = has_finished(inner, state);
        if finished && let Some(evicted) = inner.record.eviction.as_deref_mut() {
            evicted.finished = true;
        }
        finished
    });
}

fn has_finished(inner: &Inner, state: &PodState) -> bool {
    let under_way = inner.record.evicted().filter(|evicted| evicted.gone.is_none() && !evicted.finished);
    let Some(since) = under_way.map(|evicted| evicted.since) else { return false };
    let before = |record: &Record| {
        let mut ends = record.containers.values().filter_map(|own| own.last.as_ref()?.finished);
        ends.all(|finished| finished <= since)
    };
    if !before(&inner.record) {
        return false;
    }
    let record = Record { eviction: None, ending: None, ..inner.record.clone() };
    let settings = &state.env.pods;
    let decided =
        plan::plan(&inner.pod, &inner.observed, &record, inner.published(), settings, Timestamp::now());
    decided.finished == Some(PodPhase::Succeeded)
}

/// Nothing of the pod is left: releases what it held, and shows it as evicted.
fn gone(state: &PodState) {
    probing::forget(state);
    let pod = state.pod();
    // Before it is noted: the next agent need not know of them.
    devices::release(&state.env, &pod.uid);
    let mut news = false;
    state.update(|inner| {
        inner.observed = Observed::default();
        forget_troubles(inner);
        news = inner.record.note_gone(Timestamp::now());
    });
    if news {
        state.env.record_event(&pod, None, "Terminated", terminate::done(state).to_owned());
    }
}

fn forget_troubles(inner: &mut Inner) {
    inner.plan = Plan::default();
    inner.failed.clear();
    inner.trouble = None;
    inner.sandbox_failures = 0;
    inner.resize = None;
    inner.resize_error = None;
    inner.early_ooms.clear();
    inner.killed = false;
}

/// Waits after the pod's end until it starts again or there is something else to do; `None` when the agent
/// ends.
pub async fn wait(
    state: &PodState,
    orders: &mut Inbox,
    reports: &mpsc::UnboundedSender<Report>,
) -> Option<()> {
    gone(state);
    let uid = state.pod().uid.clone();
    let _ = reports.send(Report::Evicted { uid: uid.clone() });
    loop {
        // Nothing runs that would have to be resized.
        resize::report_done(state, reports);
        tokio::select! {
            biased;
            order = orders.recv() => {
                let mut news = News::default();
                news.take(state, order?);
                if news.look {
                    return Some(());
                }
            }
            () = restart_is_due(state) => {
                let _ = reports.send(Report::Restarted { uid });
                restart(state).await;
                return Some(());
            }
        }
    }
}

/// Waits until its back-off and the condition of the node that it was evicted for are over; for ever if it
/// does not start again.
async fn restart_is_due(state: &PodState) {
    let now = state.now();
    let waits = {
        let inner = state.read();
        // A controller makes another one of the API server's pods.
        let evicted = inner.record.evicted().filter(|_| !inner.record.origin.is_api());
        evicted
            .and_then(|evicted| Some((evicted.restart_delay(&state.env.eviction, now)?, evicted.condition)))
    };
    let Some((back_off, condition)) = waits else { return std::future::pending().await };
    tokio::time::sleep(back_off).await;
    if let Some(condition) = condition {
        let mut pressure = state.env.pressure.clone();
        // True, and the sender is gone: the agent ends.
        if pressure.wait_for(|pressure| !pressure.has(condition)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn restart(state: &PodState) {
    let pod = state.pod();
    let now = state.now();
    let mut message = String::new();
    state.update(|inner| {
        if let Some(evicted) = inner.record.evicted() {
            let away = backoff::go(Duration::from_secs(
                backoff::between(evicted.gone.unwrap_or(now), now).as_secs(),
            ));
            message = format!("{} {away} ago: the pod starts again", evicted.reason);
        }
        forget_troubles(inner);
        inner.record.restart(now);
    });
    // On disk before anything of it is made: the next agent would take that away as a rest of what was
    // evicted.
    state.saved().await;
    state.env.record_event(&pod, None, "CameBack", message);
    counters::pod_restarted();
}

#[cfg(test)]
mod tests;
