//! Lists of everything that the runtime has, which several parts need at the same time, are asked for once.
//!
//! The lifecycle looks at a whole list once a minute, or less often where it is long. Garbage collection does
//! so too, and the names of pods each five minutes. Only the lifecycle asks each time, by
//! [`SharedList::list`], and its question is sent at once; the others wait for the answer to a question that
//! is not sent yet, by [`SharedList::next`] and `join`. So one answer wakes the agent for all of them.
//!
//! No answer is older than the call that returns it. That matters: garbage collection reads the logs before
//! it asks, and removes those whose containers are not in the list; the lifecycle takes a pod that began
//! before it asked, and of which the list has nothing, for one that never ran.
//!
//! Nothing is kept: a list is freed with the last user's reference to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::{Client, Listing, RuntimeError};
use nodewarden_config::Endpoint;
use nodewarden_tasks::pause::shortly;

/// How long who joins waits for the question of another part at least.
const GATHER: Duration = Duration::from_millis(64);

/// How long after its first piece an answer is read, except the first one, for which the start of the agent
/// waits: with 100 pods it comes in a dozen pieces.
const PAUSE: Duration = Duration::from_millis(32);

type Answer = Result<Arc<Listing>, RuntimeError>;

/// Asks the runtime for lists that several parts share. Clones share the questions.
#[derive(Debug, Clone)]
pub struct SharedList(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    /// Time limit of each call.
    limit: Duration,
    client: Mutex<Client>,
    /// Whether that reads answers after [`PAUSE`].
    is_patient: AtomicBool,
    /// Who waits for the answer to the next question, which is not sent yet.
    waiting: Mutex<Vec<Waiting>>,
    /// When the runtime last answered another part than the names.
    answered: Mutex<Option<Instant>>,
    /// Notified when it does not answer.
    failed: Notify,
}

#[derive(Debug)]
struct Waiting {
    sender: oneshot::Sender<Answer>,
    /// The question is sent for it after [`GATHER`] if no other part asks. A task waits for that while there
    /// is such an entry.
    asks: bool,
}

impl SharedList {
    /// Lists of the runtime at `endpoint`; `limit` is the time limit of each call. Must be called inside a
    /// tokio runtime; does not connect yet.
    pub fn new(endpoint: &Endpoint, limit: Duration) -> Self {
        Self(Arc::new(Inner {
            endpoint: endpoint.clone(),
            limit,
            client: Mutex::new(new_client(endpoint, limit, Duration::ZERO)),
            is_patient: AtomicBool::new(false),
            waiting: Mutex::default(),
            answered: Mutex::default(),
            failed: Notify::new(),
        }))
    }

    /// All pod sandboxes and containers, running or not, as of a time after this call. The question is sent
    /// at once; all that wait for the next one get its answer.
    ///
    /// # Errors
    /// As of [`Client::list`]; all who wait for the answer get the error.
    pub async fn list(&self) -> Answer {
        let (sender, answer) = oneshot::channel();
        // Taken before the question is sent: who comes later waits for the next one.
        let mut waiting = std::mem::take(&mut *self.0.waiting.lock());
        waiting.push(Waiting { sender, asks: true });
        // A task of its own: the caller may stop waiting, and the others do not.
        tokio::spawn(self.clone().ask(waiting));
        let answer = self.or_ask(answer).await;
        if answer.is_ok() {
            *self.0.answered.lock() = Some(Instant::now());
        }
        answer
    }

    /// As [`Self::list`], but for the answer to the next question that another part asks, whenever that is.
    /// It is waited for from the first poll on.
    ///
    /// # Errors
    /// As of [`Self::list`].
    pub async fn next(&self) -> Answer {
        loop {
            // It fails if the task that asks panicked: the question after that one is waited for.
            if let Ok(answer) = self.register(false).await {
                return answer;
            }
        }
    }

    /// As [`Self::next`], but asks by itself if no other part does so in a moment. For the names alone: what
    /// answers them says nothing of whether others ask each minute.
    pub(super) async fn join(&self) -> Answer {
        let answer = self.register(true);
        self.or_ask(answer).await
    }

    /// Waits for the answer to the next question. `asks`: see [`Waiting::asks`].
    fn register(&self, asks: bool) -> oneshot::Receiver<Answer> {
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.0.waiting.lock();
        // Those that went away do not pile up while no part asks.
        waiting.retain(|one| !one.sender.is_closed());
        let is_first = asks && !waiting.iter().any(|one| one.asks);
        waiting.push(Waiting { sender, asks });
        drop(waiting);
        if is_first {
            tokio::spawn(self.clone().ask_if_no_other_does());
        }
        answer
    }

    async fn or_ask(&self, answer: oneshot::Receiver<Answer>) -> Answer {
        match answer.await {
            Ok(answer) => answer,
            // The task that asks panicked, or the agent ends.
            Err(_) => self.client().list().await.map(Arc::new),
        }
    }

    /// Asks after [`GATHER`], if one that joined still waits by then.
    async fn ask_if_no_other_does(self) {
        tokio::time::sleep_until(shortly(GATHER).into()).await;
        let waiting = {
            let mut waiting = self.0.waiting.lock();
            if !waiting.iter().any(|one| one.asks && !one.sender.is_closed()) {
                return;
            }
            std::mem::take(&mut *waiting)
        };
        self.ask(waiting).await;
    }

    /// Asks, and gives the answer to all of `waiting`.
    async fn ask(self, waiting: Vec<Waiting>) {
        let answer = self.client().list().await.map(Arc::new);
        if answer.is_err() {
            self.renew();
            self.0.failed.notify_one();
        } else if !self.0.is_patient.swap(true, Ordering::Relaxed) {
            *self.0.client.lock() = new_client(&self.0.endpoint, self.0.limit, PAUSE);
        }
        for one in waiting {
            // One that no longer waits needs none.
            let _ = one.sender.send(answer.clone());
        }
    }

    /// The connection on which the lists are asked for.
    pub(super) fn client(&self) -> Client {
        self.0.client.lock().clone()
    }

    /// Makes a new connection: one that hangs in its handshake would block the next call as well.
    pub(super) fn renew(&self) {
        self.0.is_patient.store(false, Ordering::Relaxed);
        *self.0.client.lock() = new_client(&self.0.endpoint, self.0.limit, Duration::ZERO);
    }

    /// When the runtime last answered another part than the names.
    pub(super) fn answered(&self) -> Option<Instant> {
        *self.0.answered.lock()
    }

    /// Returns when the runtime has not answered a question since the last time that this returned.
    pub(super) async fn failed(&self) {
        self.0.failed.notified().await;
    }

    /// The runtime's address.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }
}

fn new_client(endpoint: &Endpoint, limit: Duration, pause: Duration) -> Client {
    Client::with_pause(endpoint, pause).with_request_limit(limit)
}

#[cfg(test)]
mod tests;
