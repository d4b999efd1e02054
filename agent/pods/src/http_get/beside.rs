//! Runs what hyper's HTTP/2 wants to run beside a request in the request's own future: nothing outlives it.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::rt::Executor;

/// What is to be run; a clone asks the same one.
#[derive(Clone, Default)]
pub(crate) struct Beside(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Beside {
    fn execute(&self, future: F) {
        self.0.lock().push(Box::pin(future));
    }
}

impl Beside {
    /// Runs it all for as long as `own` takes; what is unfinished then is gone.
    pub async fn run<F: Future>(&self, own: F) -> F::Output {
        let mut own = pin!(own);
        let mut running = FuturesUnordered::new();
        poll_fn(|cx| {
            if let Poll::Ready(done) = own.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            // Until none of them goes on by itself; they may ask for more.
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
