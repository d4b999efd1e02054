//! Waiting until every status is written, before the machine shuts down.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

/// Asks the writer whether it has anything to write. Clones ask the same one.
#[derive(Debug, Clone)]
pub struct Written(mpsc::UnboundedSender<oneshot::Sender<()>>);

impl Written {
    /// Waits until the API server has the newest status of every pod that it has, at most for `limit`. False
    /// if it does not have them by then: it does not answer, or refuses one.
    pub async fn wait(&self, limit: Duration) -> bool {
        let (answer, answered) = oneshot::channel();
        if self.0.send(answer).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(limit, answered).await, Ok(Ok(())))
    }
}

/// The questions and those that are not answered yet.
#[derive(Debug)]
pub(super) struct Questions {
    written: Written,
    incoming: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    open: Vec<oneshot::Sender<()>>,
}

impl Questions {
    pub(super) fn new() -> Self {
        let (sender, incoming) = mpsc::unbounded_channel();
        Self { written: Written(sender), incoming, open: Vec::new() }
    }

    pub(super) fn written(&self) -> Written {
        self.written.clone()
    }

    /// Waits for the next question. Nothing is lost when it is dropped.
    pub(super) async fn arrives(&mut self) {
        // The sender is kept here, so there is always a next one to wait for.
        self.open.extend(self.incoming.recv().await);
    }

    /// Everything is written.
    pub(super) fn answer(&mut self) {
        for question in self.open.drain(..) {
            let _gave_up = question.send(());
        }
    }
}
