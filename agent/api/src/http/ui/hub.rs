//! Reads the node once a second for all pages that are open, and not at all while none is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nodewarden_proto::nodewarden::v1 as proto;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinError;
use tokio::time::{Instant, MissedTickBehavior};

use super::frame::{Frame, Parts, Row};
use super::rows::{millis, text};
use super::{PageSources, node, pods, rows};
use crate::grpc;
use nodewarden_model::{AgentState, Decision, EvictionStatus, PressureView};
use nodewarden_tasks::blocking;

/// Open pages. One more is refused, with the reason.
pub(super) const PAGES: usize = 16;
/// How often the node is read while a page is open.
const EVERY: Duration = Duration::from_secs(1);
/// How often it is asked who would be evicted next, which reads the usage of all pods.
const RANKED_EVERY: Duration = Duration::from_secs(5);
/// Decisions that are shown.
const DECISIONS: usize = 50;
/// Candidates of a decision that are shown, from the first.
const CANDIDATES: usize = 30;

/// What all pages have in common.
pub(super) struct Hub {
    state: Arc<dyn AgentState>,
    pub sources: PageSources,
    places: Arc<Semaphore>,
    /// The last frame; `None` while no client reads the node. A page that is slow misses frames and then gets
    /// everything: nothing is queued for it.
    frames: watch::Sender<Option<Arc<Frame>>>,
    /// Whether a task reads the node.
    working: Mutex<bool>,
}

/// The right of a page to be open, and the frames for it.
pub(super) struct Page {
    pub frames: watch::Receiver<Option<Arc<Frame>>>,
    _place: OwnedSemaphorePermit,
}

impl Hub {
    /// Reads `state`, when it is asked for.
    pub fn new(state: Arc<dyn AgentState>, sources: PageSources) -> Arc<Self> {
        let (places, frames) = (Arc::new(Semaphore::new(PAGES)), watch::Sender::new(None));
        Arc::new(Self { state, sources, places, frames, working: Mutex::new(false) })
    }

    /// A place for one more page; `None` if there are too many. Begins to read the node.
    pub fn open(self: &Arc<Self>) -> Option<Page> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let mut working = self.working.lock();
        let frames = self.frames.subscribe();
        if !*working {
            *working = true;
            tokio::spawn(Working(self.clone()).work());
        }
        Some(Page { frames, _place: place })
    }

    /// Whether the node is being read.
    #[cfg(test)]
    pub fn is_working(&self) -> bool {
        *self.working.lock()
    }

    async fn read(self: &Arc<Self>, ranking: Option<&Value>) -> Result<Frame, JoinError> {
        let (hub, before) = (self.clone(), self.frames.borrow().clone());
        let mut parts = blocking::QUERIES.run(move || parts(hub.state.as_ref())).await?;
        if let Some(ranking) = ranking {
            parts.values.insert("next", ranking.to_string());
        }
        Ok(Frame::after(before.as_deref(), parts))
    }
}

/// The task that reads the node. When it ends in whatever way, the next page starts another one.
struct Working(Arc<Hub>);

impl Working {
    async fn work(self) {
        let hub = &self.0;
        let mut stopping = hub.sources.stopping.clone();
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ranked: Option<(Instant, Value)> = None;
        loop {
            tokio::select! {
                _ = every.tick() => {}
                // An error means that the agent ends.
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            if hub.frames.receiver_count() == 0 {
                let mut working = hub.working.lock();
                // A page may have been opened since.
                if hub.frames.receiver_count() == 0 {
                    hub.frames.send_replace(None);
                    *working = false;
                    return;
                }
            }
            if ranked.as_ref().is_none_or(|(at, _)| at.elapsed() >= RANKED_EVERY)
                && let Some(eviction) = hub.state.eviction()
            {
                ranked = Some((Instant::now(), ranking(eviction.as_ref()).await));
            }
            match hub.read(ranked.as_ref().map(|(_, ranking)| ranking)).await {
                Ok(frame) => drop(hub.frames.send_replace(Some(Arc::new(frame)))),
                Err(error) => {
                    tracing::error!(%error, "reading the node for the page failed");
                    return;
                }
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut working = self.0.working.lock();
        if *working {
            // It ended by a fault, or with the agent: pages see that there is nothing any more, and ask
            // again.
            *working = false;
            self.0.frames.send_replace(None);
        }
    }
}

/// Everything but the ranking. Blocks for milliseconds.
fn parts(state: &dyn AgentState) -> Parts {
    let (snapshot, status, devices) = (state.snapshot(), state.status(), state.devices());
    let groups = grpc::cgroup::list(&snapshot, "", false);
    let wanted = proto::ListPodsRequest { probes: true, ..proto::ListPodsRequest::default() };
    let runtime = state.runtime_name();
    let list = grpc::pods::list(&state.shown_pods(), &snapshot, &state.probes(), runtime.as_deref(), &wanted);
    let eviction = state.eviction();
    let pressure = eviction
        .as_ref()
        .map(|own| node::pressure(&grpc::pressure::convert::pressure(PressureView::of(own.as_ref()))));
    let decisions = eviction.map(|own| own.decisions()).unwrap_or_default();
    let decisions = decisions.iter().take(DECISIONS).map(|own| decision_row(own)).collect();
    Parts {
        values: BTreeMap::from([
            ("time", millis(SystemTime::now()).to_string()),
            ("node", text(&node::Node::of(&snapshot))),
            ("agent", text(&node::Agent::of(&status))),
            ("pressure", text(&pressure)),
            ("devices", node::devices(&grpc::device::list(devices)).to_string()),
        ]),
        tables: BTreeMap::from([
            ("groups", rows::groups(&groups).into_iter().collect()),
            ("pods", pods::rows(&list).into_iter().collect()),
            ("decisions", decisions),
        ]),
    }
}

fn decision_row(own: &Decision) -> (String, Row) {
    (own.number.to_string(), Row::new(decision(own).to_string()))
}

/// A decision with the first of its candidates, those that were chosen, and how many there were.
fn decision(own: &Decision) -> Value {
    let mut shown = own.clone();
    let (all, mut at) = (shown.candidates.len(), 0);
    shown.candidates.retain(|candidate| {
        at += 1;
        at <= CANDIDATES || candidate.chosen
    });
    let mut value = serde_json::to_value(&shown).unwrap_or_default();
    value["candidatesInAll"] = all.into();
    value
}

/// Who would be evicted if memory became short: a simulation with a threshold that is met, whatever is in
/// use.
async fn ranking(eviction: &dyn EvictionStatus) -> Value {
    const SIGNAL: &str = "memory.available";
    let known = eviction.signals().into_iter().find(|own| own.signal == SIGNAL);
    let threshold = known.map_or_else(|| "99%".to_owned(), |own| own.capacity.to_string());
    match eviction.simulate(SIGNAL, &threshold).await {
        Ok(ranking) => decision(&Decision { steps: Vec::new(), ..ranking }),
        Err(error) => serde_json::json!({"signal": SIGNAL, "error": error}),
    }
}
