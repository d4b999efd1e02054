//! A subscription to the journal as a stream of messages, without a queue or task in between: an appended
//! event wakes the connection directly.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use nodewarden_proto::nodewarden::v1::WatchEventsResponse;
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::Status;

use super::event;
use super::filter::EventFilter;
use nodewarden_storage::journal::Subscription;

type Next = Pin<Box<dyn Future<Output = Option<(Source, WatchEventsResponse)>> + Send>>;

/// A stream of events that ends with the journal or the server, or after the backlog if it does not follow.
pub struct EventStream {
    /// `None` once it has ended.
    next: Option<Next>,
}

struct Source {
    subscription: Subscription,
    filter: EventFilter,
    stopping: watch::Receiver<bool>,
}

impl EventStream {
    pub fn new(subscription: Subscription, filter: EventFilter, stopping: watch::Receiver<bool>) -> Self {
        Self { next: Some(Box::pin(Source { subscription, filter, stopping }.next())) }
    }
}

impl Source {
    async fn next(mut self) -> Option<(Self, WatchEventsResponse)> {
        loop {
            let event = tokio::select! {
                biased;
                event = self.subscription.next() => event?,
                // An error means that the server has ended.
                _ = self.stopping.wait_for(|stop| *stop) => return None,
            };
            if self.filter.wants(&event) {
                let message = WatchEventsResponse { event: Some(event::to_proto(&event)) };
                return Some((self, message));
            }
        }
    }
}

impl Stream for EventStream {
    type Item = Result<WatchEventsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        match next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some((source, message))) => {
                self.next = Some(Box::pin(source.next()));
                Poll::Ready(Some(Ok(message)))
            }
            Poll::Ready(None) => {
                self.next = None;
                Poll::Ready(None)
            }
        }
    }
}
