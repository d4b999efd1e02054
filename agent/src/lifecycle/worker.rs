//! One pod's worker: takes orders at any time, and carries the pod on turn by turn until it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::manifest::Manifest;
use super::state::PodState;
use super::turn::{Next, turn};
use super::{ContainerStage, Ending, devices, exits, look, resizing, terminate};
use crate::pod::Pod;
use crate::view::OomVictim;

/// What a worker is told.
#[derive(Debug)]
pub enum Order {
    /// Something may have changed at the runtime.
    Look,
    /// The kernel saw the container's last process end, or its first one: the runtime will say so in a moment.
    Exited { container: String },
    /// The kernel killed a process of the container for memory.
    Oom { container: String, victim: OomVictim },
    /// Other resources; the pod level has grown for them when its place says `version`.
    Resize { pod: Arc<Pod>, version: u64 },
    /// The manifest is in another file now.
    Moved { origin: String },
    /// The pod is to go.
    End(Ending),
}

/// What a worker tells.
#[derive(Debug)]
pub enum Report {
    /// Every container has the resources of the last order.
    Resized { uid: String },
    /// Nothing of the pod is left but its cgroup.
    Gone { uid: String },
    /// The worker died of a fault in the agent.
    Died { state: Arc<PodState> },
}

/// How long the runtime may take to notice what the kernel saw.
const NOTICED: Duration = Duration::from_secs(2);

/// Runs until the pod has ended. `fresh`: the runtime has nothing of this pod, as was just seen.
pub async fn run(
    state: Arc<PodState>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    reports: mpsc::UnboundedSender<Report>,
    fresh: bool,
) {
    state.show();
    if !fresh {
        devices::adopt(&state).await;
    }
    let mut look = !fresh;
    // A container whose end the kernel saw and the runtime has not told yet.
    let mut expected: Option<String> = None;
    while !state.is_ending() {
        let awaited = expected.take();
        let next = {
            // On the heap, so that a worker that waits holds nothing of it.
            let mut turn = Box::pin(async {
                if let Some(container) = awaited {
                    noticed(&state, &container).await;
                }
                turn(&state, look).await
            });
            let mut news = News::default();
            let next = loop {
                tokio::select! {
                    biased;
                    order = orders.recv() => match order {
                        Some(order) => news.take(&state, order),
                        // The agent ends: what is under way is dropped, the next agent goes on.
                        None => return,
                    },
                    next = &mut turn => break next,
                }
            };
            expected = news.expected;
            if news.look { Next::Wait(Some(Duration::ZERO)) } else { next }
        };
        look = match next {
            Next::Again => false,
            Next::Wait(wait) => {
                resizing::report_done(&state, &reports);
                let mut news = News::default();
                let first = match wait {
                    Some(wait) => tokio::time::timeout(wait, orders.recv()).await,
                    None => Ok(orders.recv().await),
                };
                match first {
                    Ok(Some(order)) => news.take(&state, order),
                    Ok(None) => return,
                    Err(_) => {}
                }
                while let Ok(order) = orders.try_recv() {
                    news.take(&state, order);
                }
                expected = expected.or(news.expected);
                true
            }
        };
    }
    state.seen();
    // Orders that come now change nothing, but kills for memory are told to the end.
    let mut ending = Box::pin(terminate::terminate(&state));
    loop {
        tokio::select! {
            biased;
            () = &mut ending => break,
            order = orders.recv() => match order {
                Some(Order::Oom { container, victim }) => exits::note_oom(&state, &container, victim),
                Some(_) => {}
                None => return,
            },
        }
    }
    let _ = reports.send(Report::Gone { uid: state.pod().uid.clone() });
}

/// What orders ask of the next turn.
#[derive(Debug, Default)]
struct News {
    look: bool,
    expected: Option<String>,
}

impl News {
    /// Carries out what does not wait for a turn.
    fn take(&mut self, state: &PodState, order: Order) {
        match order {
            Order::Look => self.look = true,
            Order::Exited { container } => {
                self.look = true;
                self.expected = Some(container);
            }
            Order::Oom { container, victim } => exits::note_oom(state, &container, victim),
            Order::Resize { pod, version } => {
                self.look = true;
                state.update(|inner| {
                    inner.record.manifest = Manifest::of(&pod);
                    inner.pod = pod;
                    inner.version = version;
                    inner.resizing = true;
                });
            }
            Order::Moved { origin } => state.update(|inner| inner.record.origin = origin),
            Order::End(ending) => {
                // Told in a turn that finds nothing to do, it must not be waited for.
                self.look = true;
                let (pod, why) = (state.pod(), ending.why.clone());
                state.update(|inner| {
                    inner.record.ending.get_or_insert(ending);
                });
                state.env.tell(&pod, None, "Killing", format!("Stopping pod: {why}"));
                state.interrupt();
            }
        }
    }
}

/// Waits until the runtime has noticed the end of a container that runs by its word; milliseconds, as a rule.
async fn noticed(state: &PodState, container: &str) {
    let runs = {
        let inner = state.lock();
        let seen = inner.observed.containers.iter().find(|seen| seen.id == container);
        seen.is_some_and(|seen| seen.stage == ContainerStage::Running)
    };
    if !runs {
        return;
    }
    let begun = std::time::Instant::now();
    let mut pause = Duration::from_millis(1);
    while begun.elapsed() < NOTICED && look::still_runs(state, container).await && state.pause(pause).await {
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
