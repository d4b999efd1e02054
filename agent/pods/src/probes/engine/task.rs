//! The engine's task: begins due runs, processes ended ones, and calls sinks.

use parking_lot::{Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};
use tracing::error;

use super::run::{self, Ended, words};
use super::state::{Effect, Id, State};
use crate::probes::Prober;
use nodewarden_manifest::HandlerKind;

/// Maximum number of messages processed before due probes are begun.
const BATCH: usize = 64;

/// A message to the task.
pub enum Message {
    /// The next due probe may have changed.
    Look,
    Ended(Ended),
    /// A run is too late and no longer counts in its lane.
    Late(HandlerKind),
    /// The change of this probe's result was saved and published.
    Settled(Id),
}

/// Shared by the task and the handles.
pub struct Shared {
    state: Mutex<State>,
    prober: Arc<dyn Prober>,
    pub sender: UnboundedSender<Message>,
}

impl Shared {
    pub fn new(state: State, prober: Arc<dyn Prober>, sender: UnboundedSender<Message>) -> Self {
        Self { state: Mutex::new(state), prober, sender }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn begin_due(&self) -> Option<Instant> {
        let start = |run| run::begin(run, self.prober.clone(), self.sender.clone());
        self.state().begin_due(Instant::now(), start)
    }

    fn take(&self, message: Message) {
        match message {
            Message::Look => {}
            Message::Late(handler) => self.state().lanes.of(handler).free_place(),
            Message::Settled(id) => self.state().settled(id, Instant::now()),
            Message::Ended(ended) => {
                let effect = self.state().ended(ended, Instant::now());
                if let Some(effect) = effect {
                    self.carry_out(effect);
                }
            }
        }
    }

    /// Calls a sink. A panic of the sink is caught, so that it affects only its own pod.
    fn carry_out(&self, effect: Effect) {
        let Effect { id, sink, events, keep } = effect;
        for (reason, message) in events {
            guarded(|| sink.record_event(reason, message));
        }
        let Some((memory, change)) = keep else { return };
        let saved = guarded(|| sink.keep(&memory, change.as_ref()));
        let then = change.is_some().then(|| self.sender.clone());
        tokio::spawn(settle(saved, id, then));
    }
}

async fn settle(saved: Option<BoxFuture<'static, ()>>, id: Id, then: Option<UnboundedSender<Message>>) {
    if let Some(saved) = saved
        && let Err(panic) = AssertUnwindSafe(saved).catch_unwind().await
    {
        error!("saving what a probe came to panicked: {}", words(panic.as_ref()));
    }
    if let Some(sender) = then {
        // The receiver is gone once the runtime ends.
        let _ = sender.send(Message::Settled(id));
    }
}

fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    result
        .inspect_err(|panic| error!("telling what a probe came to panicked: {}", words(panic.as_ref())))
        .ok()
}

/// Runs until it is aborted.
pub async fn run(shared: Arc<Shared>, mut inbox: UnboundedReceiver<Message>) {
    let sleep = sleep_until(Instant::now());
    tokio::pin!(sleep);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let next = shared.begin_due();
        if let Some(at) = next
            && at != sleep.deadline()
        {
            sleep.as_mut().reset(at);
        }
        tokio::select! {
            _ = inbox.recv_many(&mut batch, BATCH) => {}
            () = &mut sleep, if next.is_some() => {}
        }
        batch.drain(..).for_each(|message| shared.take(message));
    }
}
