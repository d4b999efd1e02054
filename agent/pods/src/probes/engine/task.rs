//! The engine's task: begins due runs, processes ended ones, and calls sinks.

use parking_lot::{Mutex, MutexGuard};
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep_until};
use tracing::error;

use super::run::{self, Begun, Ended, words};
use super::state::{Effect, Id, Next, State};
use crate::probes::Prober;
use nodewarden_manifest::HandlerKind;

/// Maximum number of messages processed before due probes are begun, and of probes begun before messages are
/// processed.
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

/// What the task waits for after it has begun runs.
enum Wait {
    /// More runs are due: only until the other tasks had their turn.
    Yield,
    /// A message, or the time when the next run is due.
    Until(Option<Instant>),
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

    /// Begins due runs, at most [`BATCH`].
    fn begin_due(&self) -> Wait {
        for _ in 0..BATCH {
            // The lock is taken for each run, so that none begins after its probe was stopped.
            let run = match self.state().next(Instant::now()) {
                Next::Run(run) => run,
                Next::At(at) => return Wait::Until(at),
            };
            let id = run.id;
            match run::begin(run, self.prober.clone(), &self.sender) {
                Begun::Ended(ended) => self.take(Message::Ended(ended)),
                Begun::Running(task) => {
                    let stopped = self.state().continues(id, task);
                    stopped.iter().for_each(AbortHandle::abort);
                }
            }
        }
        Wait::Yield
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
        let wait = shared.begin_due();
        if let Wait::Until(Some(at)) = wait
            && at != sleep.deadline()
        {
            sleep.as_mut().reset(at);
        }
        if let Wait::Yield = wait {
            yield_now().await;
            batch.extend(iter::from_fn(|| inbox.try_recv().ok()).take(BATCH));
        } else {
            tokio::select! {
                _ = inbox.recv_many(&mut batch, BATCH) => {}
                () = &mut sleep, if matches!(wait, Wait::Until(Some(_))) => {}
            }
        }
        batch.drain(..).for_each(|message| shared.take(message));
    }
}
