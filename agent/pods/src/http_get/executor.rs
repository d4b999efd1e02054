//! An executor that runs hyper's HTTP/2 background tasks within the future of the request, so that none
//! outlives it.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::rt::Executor;

/// The tasks to run; clones share them.
#[derive(Clone, Default)]
pub(crate) struct LocalExecutor(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        self.0.lock().push(Box::pin(future));
    }
}

impl LocalExecutor {
    /// Runs the tasks until `own` completes; unfinished ones are dropped.
    pub async fn run<F: Future>(&self, own: F) -> F::Output {
        let mut own = pin!(own);
        let mut running = FuturesUnordered::new();
        poll_fn(|cx| {
            if let Poll::Ready(done) = own.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            // Repeated until no task makes progress, because tasks may add others.
            loop {
                let asked = self.take();
                if asked.is_empty() && !matches!(running.poll_next_unpin(cx), Poll::Ready(Some(()))) {
                    return Poll::Pending;
                }
                running.extend(asked);
            }
        })
        .await
    }

    fn take(&self) -> Vec<BoxFuture<'static, ()>> {
        mem::take(&mut *self.0.lock())
    }
}
