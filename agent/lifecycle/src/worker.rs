//! One pod's worker: takes orders at any time, and does what is due turn by turn until the pod ends.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::act::inbox::{NOTICED, News};
use crate::act::turn::{Next, turn};
use crate::act::{devices, evict, kill, look, probing, resize, terminate};
use crate::orders::{Inbox, Report};
use crate::state::PodState;
use nodewarden_model::backoff::Backoff;

/// Runs the worker after `wait`. If it dies of a fault, that is written down and reported.
pub async fn watched(
    state: Arc<PodState>,
    orders: Inbox,
    reports: mpsc::UnboundedSender<Report>,
    fresh: bool,
    wait: Duration,
) {
    if !wait.is_zero() {
        // Others do not wait for it, and what is known of it is shown.
        state.mark_seen();
        state.show();
        Box::pin(tokio::time::sleep(wait)).await;
    }
    let run = AssertUnwindSafe(run(state.clone(), orders, reports.clone(), fresh));
    if run.catch_unwind().await.is_err() {
        Box::pin(state.record_fault()).await;
        probing::ended(&state);
        let (pod, record) = {
            let inner = state.read();
            (inner.pod.clone(), Box::new(inner.record.clone()))
        };
        let _ = reports.send(Report::Died { pod, record });
    }
}

/// Runs until the pod has ended for good. `fresh`: the runtime has nothing of this pod, as was just seen.
pub async fn run(
    state: Arc<PodState>,
    mut orders: Inbox,
    reports: mpsc::UnboundedSender<Report>,
    fresh: bool,
) {
    state.show();
    let away = state.read().record.is_evicted();
    if !fresh && !away {
        Box::pin(devices::adopt(&state)).await;
    }
    let mut look = !fresh;
    loop {
        let Some(()) = live(&state, &mut orders, &reports, look).await else { return };
        // What happens once in a pod's life is on the heap while it lasts, so that it is no part of every
        // worker.
        let Some(()) = Box::pin(leave(&state, &mut orders)).await else { return };
        if state.read().record.ending.is_some() {
            break;
        }
        let Some(()) = Box::pin(evict::wait(&state, &mut orders, &reports)).await else { return };
        look = true;
    }
    if state.is_api() {
        let Some(()) = Box::pin(evict::wait_until_deleted(&state, &mut orders, &reports)).await else {
            return;
        };
    }
    Box::pin(terminate::forget(&state)).await;
    let _ = reports.send(Report::Gone { uid: state.pod().uid.clone() });
}

/// Does what is due until the pod is to end; `None` when the agent ends. `look`: the runtime is asked first.
async fn live(
    state: &PodState,
    orders: &mut Inbox,
    reports: &mpsc::UnboundedSender<Report>,
    mut look: bool,
) -> Option<()> {
    // Containers whose end the kernel saw and the runtime has not reported yet.
    let mut expected: Vec<(String, Duration)> = Vec::new();
    while !state.is_ending() {
        let awaited = std::mem::take(&mut expected);
        let next = {
            // On the heap, so that a worker that waits holds nothing of it.
            let mut turn = Box::pin(async {
                for (container, longest) in awaited {
                    noticed(state, reports, &container, longest).await;
                }
                turn(state, look).await
            });
            let mut news = News::default();
            let next = loop {
                tokio::select! {
                    biased;
                    // None: what is under way is dropped, and the next agent continues.
                    order = orders.recv() => news.take(state, order?),
                    next = &mut turn => break next,
                }
            };
            expected = news.expected;
            if news.look { Next::Wait(Some(Duration::ZERO)) } else { next }
        };
        look = match next {
            Next::Again => false,
            Next::Wait(wait) => {
                // Something is due at once.
                if wait != Some(Duration::ZERO) {
                    state.release_start_permit();
                    // An order to resize that came during the turn is in no plan yet.
                    resize::report_done(state, reports);
                }
                let mut news = News::default();
                let first = match wait {
                    // On the heap: few workers wait for a time.
                    Some(wait) => Box::pin(tokio::time::timeout(wait, orders.recv())).await,
                    None => Ok(orders.recv().await),
                };
                let is_time = first.is_err();
                if let Ok(order) = first {
                    news.take(state, order?);
                }
                while let Some(order) = orders.try_recv() {
                    news.take(state, order);
                }
                expected.extend(news.expected);
                // Most orders change what the agent knows, not what the runtime has.
                is_time || news.look
            }
            Next::WaitToStart => {
                let news = Box::pin(wait_to_start(state, orders)).await?;
                expected.extend(news.expected);
                news.look
            }
        };
    }
    Some(())
}

/// Waits until the pod has a permit to start or is to end. Returns what orders said meanwhile; `None` when
/// the agent ends. The permit is held until its containers run too, or the pod waits for something else.
async fn wait_to_start(state: &PodState, orders: &mut Inbox) -> Option<News> {
    let mut permit = pin!(state.env.starts.clone().acquire_owned());
    let mut news = News::default();
    while !state.is_ending() {
        tokio::select! {
            biased;
            order = orders.recv() => news.take(state, order?),
            // Never closed.
            permit = &mut permit => {
                state.set(|inner| inner.starting = permit.ok());
                break;
            }
        }
    }
    Some(news)
}

/// Ends the pod; `None` when the agent ends. Orders change little now, but kills for memory are still
/// recorded.
async fn leave(state: &PodState, orders: &mut Inbox) -> Option<()> {
    state.mark_seen();
    state.release_start_permit();
    probing::stop(state);
    let mut ending = Box::pin(terminate::terminate(state));
    let mut news = News::default();
    loop {
        tokio::select! {
            biased;
            () = &mut ending => return Some(()),
            order = orders.recv() => news.take(state, order?),
        }
    }
}

/// Waits until the runtime has noticed the end of a container that it reports as running; milliseconds, as a
/// rule.
async fn noticed(
    state: &PodState,
    reports: &mpsc::UnboundedSender<Report>,
    container: &str,
    longest: Duration,
) {
    if !kill::runs(state, container) {
        return;
    }
    let begun = std::time::Instant::now();
    let mut pause = Backoff::doubling(Duration::from_millis(1), Duration::from_millis(50));
    while look::still_runs(state, container).await {
        if begun.elapsed() >= longest {
            // The runtime counts: the container runs until the runtime says something else.
            let (uid, sure) = (state.pod().uid.clone(), longest >= NOTICED);
            let _ = reports.send(Report::Contradicted { uid, sure });
            return probing::alive(state, container);
        }
        if !state.pause(pause.advance()).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_waits_is_small() {
        fn size<A, B, C, D, E, F>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
            size_of::<F>()
        }
        // There is one for each pod.
        assert!(size(watched) <= 360, "{}", size(watched));
    }
}
