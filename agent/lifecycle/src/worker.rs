//! One pod's worker: takes orders at any time, and carries the pod on turn by turn until it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::manifest::Manifest;
use super::state::PodState;
use super::turn::{Next, turn};
use super::{Ending, away, devices, exits, kill, look, probing, resizing, terminate};
use nodewarden_admission::NoGrowth;
use nodewarden_cri::Listing;
use nodewarden_eviction::Eviction;
use nodewarden_manifest::Pod;
use nodewarden_model::OomVictim;

/// What a worker is told.
#[derive(Debug)]
pub enum Order {
    /// Something may have changed at the runtime.
    Look,
    /// What the runtime has of the pod now, which is looked at only if it is news.
    Listed(Box<Listing>),
    /// The kernel saw the container's last process end, or its first one: the runtime will say so in a moment.
    /// Unless it is `sure`, it may have been another process that the runtime had started in it.
    Exited { container: String, sure: bool },
    /// The kernel killed a process of the container for memory.
    Oom { container: String, victim: OomVictim },
    /// A probe's result has changed; `look`: something may have to be done.
    Probed { look: bool },
    /// Other resources; the pod level has grown for them when its place says `version`.
    Resize { pod: Arc<Pod>, version: u64 },
    /// Why it does not have the resources that it should, or that it should have no others.
    NotResized { why: Option<NoGrowth> },
    /// The manifest is in another file now.
    Moved { origin: String },
    /// The pod has to make way, and comes back later.
    Evict(Eviction),
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
    /// Nothing of a pod that had to make way is left: it needs no cgroup for now.
    Away { uid: String },
    /// It comes back, and needs one.
    Back { uid: String },
    /// The worker died of a fault in the agent.
    Died { state: Arc<PodState> },
}

/// How long the runtime may take to notice what the kernel saw.
const NOTICED: Duration = Duration::from_secs(2);
/// The same where it may have been something else.
const DOUBTED: Duration = Duration::from_millis(100);

/// Runs until the pod has ended for good. `fresh`: the runtime has nothing of this pod, as was just seen.
pub async fn run(
    state: Arc<PodState>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    reports: mpsc::UnboundedSender<Report>,
    fresh: bool,
) {
    state.show();
    let away = state.lock().record.is_away();
    if !fresh && !away {
        Box::pin(devices::adopt(&state)).await;
    }
    let mut look = !fresh;
    loop {
        let Some(()) = live(&state, &mut orders, &reports, look).await else { return };
        // What comes once in a pod's life is on the heap for as long as it takes, and no part of every worker.
        let Some(()) = Box::pin(leave(&state, &mut orders)).await else { return };
        if state.lock().record.ending.is_some() {
            break;
        }
        let Some(()) = Box::pin(away::wait(&state, &mut orders, &reports)).await else { return };
        look = true;
    }
    Box::pin(terminate::forget(&state)).await;
    let _ = reports.send(Report::Gone { uid: state.pod().uid.clone() });
}

/// Carries the pod on until it is to end; `None` when the agent ends. `look`: the runtime is asked first.
async fn live(
    state: &PodState,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    reports: &mpsc::UnboundedSender<Report>,
    mut look: bool,
) -> Option<()> {
    // Containers whose end the kernel saw and the runtime has not told yet.
    let mut expected: Vec<(String, Duration)> = Vec::new();
    while !state.is_ending() {
        let awaited = std::mem::take(&mut expected);
        let next = {
            // On the heap, so that a worker that waits holds nothing of it.
            let mut turn = Box::pin(async {
                for (container, longest) in awaited {
                    noticed(state, &container, longest).await;
                }
                turn(state, look).await
            });
            let mut news = News::default();
            let next = loop {
                tokio::select! {
                    biased;
                    // None: what is under way is dropped, the next agent goes on.
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
                // With news it goes on at once.
                if wait != Some(Duration::ZERO) {
                    state.give_way();
                }
                resizing::report_done(state, reports);
                let mut news = News::default();
                let first = match wait {
                    Some(wait) => tokio::time::timeout(wait, orders.recv()).await,
                    None => Ok(orders.recv().await),
                };
                if let Ok(order) = first {
                    news.take(state, order?);
                }
                while let Ok(order) = orders.try_recv() {
                    news.take(state, order);
                }
                expected.extend(news.expected);
                true
            }
        };
    }
    Some(())
}

/// Ends the pod; `None` when the agent ends. Orders change little now, but kills for memory are told to the end.
async fn leave(state: &PodState, orders: &mut mpsc::UnboundedReceiver<Order>) -> Option<()> {
    state.seen();
    state.give_way();
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

/// What orders ask of the next turn.
#[derive(Debug, Default)]
pub(super) struct News {
    pub look: bool,
    /// With how long it is waited for.
    expected: Vec<(String, Duration)>,
}

impl News {
    /// Carries out what does not wait for a turn.
    pub fn take(&mut self, state: &PodState, order: Order) {
        match order {
            Order::Look => self.look = true,
            Order::Listed(listing) => self.look |= look::differs(&state.lock().observed, &listing),
            Order::Exited { container, sure } => {
                self.look = true;
                // Not one probe more may count against it, or as its success.
                if sure {
                    probing::exited(state, &container);
                }
                let wait = if sure { NOTICED } else { DOUBTED };
                // Told by its process and by its cgroup.
                match self.expected.iter_mut().find(|(id, _)| *id == container) {
                    Some((_, longest)) => *longest = wait.max(*longest),
                    None => self.expected.push((container, wait)),
                }
            }
            Order::Probed { look } => {
                self.look |= look;
                state.show();
            }
            Order::Oom { container, victim } => exits::note_oom(state, &container, victim),
            Order::Resize { pod, version } => {
                self.look = true;
                state.update(|inner| {
                    inner.record.manifest = Manifest::of(&pod);
                    inner.pod = pod;
                    inner.version = version;
                    inner.resizing = true;
                    inner.resize.clear();
                });
            }
            Order::NotResized { why } => resizing::refused(state, why.as_ref()),
            Order::Evict(eviction) => {
                self.look = true;
                away::evict(state, &eviction);
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
                probing::stop(state);
                state.interrupt();
            }
        }
    }
}

/// Waits until the runtime has noticed the end of a container that runs by its word; milliseconds, as a rule.
async fn noticed(state: &PodState, container: &str, longest: Duration) {
    if !kill::runs(state, container) {
        return;
    }
    let begun = std::time::Instant::now();
    let mut pause = Duration::from_millis(1);
    while look::still_runs(state, container).await {
        if begun.elapsed() >= longest {
            // Of the two the runtime is asked again and again.
            return probing::alive(state, container);
        }
        if !state.pause(pause).await {
            return;
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
