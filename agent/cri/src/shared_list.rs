//! Lists of everything that the runtime has, which several parts need at the same time, are asked for once.
//!
//! Garbage collection, the lifecycle and the names of pods each look at a whole list once a minute, at the
//! same moment (`nodewarden_tasks::pause::every`). A question is sent a short time after the first of them
//! has come, and all that come until then get its answer.
//!
//! So no answer is older than the call that returns it. That matters: garbage collection reads the logs
//! before it asks, and removes those whose containers are not in the list; the lifecycle takes a pod that
//! began before it asked, and of which the list has nothing, for one that never ran. Who cannot wait asks
//! with a [`Client`].
//!
//! Nothing is kept: a list is freed with the last user's reference to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::{Client, Listing, RuntimeError};
use nodewarden_config::Endpoint;
use nodewarden_tasks::pause::shortly;

/// How long a question waits for others at least. Garbage collection comes some milliseconds after the rest:
/// it reads the logs first.
const GATHER: Duration = Duration::from_millis(64);

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
    /// Who waits for the answer to the next question, which is not sent yet; `None` if nobody does.
    waiting: Mutex<Option<Vec<oneshot::Sender<Answer>>>>,
    /// When the runtime last answered another part than the names.
    answered: Mutex<Option<Instant>>,
    /// Notified when it does not answer.
    failed: Notify,
}

impl SharedList {
    /// Lists of the runtime at `endpoint`; `limit` is the time limit of each call. Must be called inside a
    /// tokio runtime; does not connect yet.
    pub fn new(endpoint: &Endpoint, limit: Duration) -> Self {
        Self(Arc::new(Inner {
            endpoint: endpoint.clone(),
            limit,
            client: Mutex::new(new_client(endpoint, limit)),
            waiting: Mutex::default(),
            answered: Mutex::default(),
            failed: Notify::new(),
        }))
    }

    /// All pod sandboxes and containers, running or not, as of a time after this call. Others that ask at
    /// about the same time get the same list.
    ///
    /// # Errors
    /// As of [`Client::list`]; all who wait for the answer get the error.
    pub async fn list(&self) -> Answer {
        let answer = self.join().await;
        if answer.is_ok() {
            *self.0.answered.lock() = Some(Instant::now());
        }
        answer
    }

    /// As [`Self::list`], for the names alone: what answers them says nothing of whether others ask each
    /// minute.
    pub(super) async fn join(&self) -> Answer {
        let (sender, answer) = oneshot::channel();
        let is_first = {
            let mut waiting = self.0.waiting.lock();
            let is_first = waiting.is_none();
            waiting.get_or_insert_default().push(sender);
            is_first
        };
        if is_first {
            // A task of its own: whoever was first may stop waiting, and the others do not.
            tokio::spawn(self.clone().ask());
        }
        match answer.await {
            Ok(answer) => answer,
            // That task panicked, or the agent ends.
            Err(_) => self.client().list().await.map(Arc::new),
        }
    }

    async fn ask(self) {
        tokio::time::sleep_until(shortly(GATHER).into()).await;
        // Taken before the question is sent: who comes later waits for the next one.
        let waiting = self.0.waiting.lock().take().unwrap_or_default();
        let answer = self.client().list().await.map(Arc::new);
        if answer.is_err() {
            self.renew();
            self.0.failed.notify_one();
        }
        for one in waiting {
            // One that no longer waits needs none.
            let _ = one.send(answer.clone());
        }
    }

    /// The connection on which the lists are asked for.
    pub(super) fn client(&self) -> Client {
        self.0.client.lock().clone()
    }

    /// Makes a new connection: one that hangs in its handshake would block the next call as well.
    pub(super) fn renew(&self) {
        *self.0.client.lock() = new_client(&self.0.endpoint, self.0.limit);
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

fn new_client(endpoint: &Endpoint, limit: Duration) -> Client {
    Client::new(endpoint).with_request_limit(limit)
}

#[cfg(test)]
mod tests;
