//! CRI's stream of what happens to containers (KEP-3386).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;
use tokio_stream::Stream;
use tonic::{Response, Status, Streaming};

use super::error::About;
use super::{Client, RuntimeError};
use nodewarden_config::Endpoint;

const CALL: &str = "GetContainerEvents";
/// A runtime refuses the call at once or, as Go's gRPC server does, says nothing until the first event.
const REFUSAL: Duration = Duration::from_millis(500);

type Opening =
    Pin<Box<dyn Future<Output = Result<Response<Streaming<cri::ContainerEventResponse>>, Status>> + Send>>;

/// What happens to containers, as it happens. Ends, mostly with an error, when the connection does: list anew then,
/// since what happened in between is not told.
pub struct Events {
    endpoint: Endpoint,
    state: State,
}

enum State {
    /// No event yet, and so no answer.
    Opening(Opening),
    Open(Box<Streaming<cri::ContainerEventResponse>>),
    Ended,
}

impl Client {
    /// The runtime's events from now on; `None` from a runtime that does not know the call (containerd before 1.7).
    ///
    /// Returns within half a second. What refuses the call later than that does it as the stream's first item,
    /// [`RuntimeError::is_unimplemented`].
    pub async fn events(&self) -> Result<Option<Events>, RuntimeError> {
        let mut service = self.service.clone();
        let mut opening: Opening =
            Box::pin(async move { service.get_container_events(cri::GetEventsRequest {}).await });
        let state = match tokio::time::timeout(REFUSAL, &mut opening).await {
            Err(_) => State::Opening(opening),
            Ok(Ok(response)) => State::Open(Box::new(response.into_inner())),
            Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => return Ok(None),
            Ok(Err(status)) => return Err(failed(&self.endpoint, status)),
        };
        Ok(Some(Events { endpoint: self.endpoint.clone(), state }))
    }
}

impl Stream for Events {
    type Item = Result<cri::ContainerEventResponse, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let error = match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Opening(opening) => match std::task::ready!(opening.as_mut().poll(context)) {
                    Ok(response) => {
                        self.state = State::Open(Box::new(response.into_inner()));
                        continue;
                    }
                    Err(status) => Some(status),
                },
                State::Open(stream) => match std::task::ready!(Pin::new(stream).poll_next(context)) {
                    Some(Ok(event)) => return Poll::Ready(Some(Ok(event))),
                    Some(Err(status)) => Some(status),
                    None => None,
                },
            };
            self.state = State::Ended;
            return Poll::Ready(error.map(|status| Err(failed(&self.endpoint, status))));
        }
    }
}

fn failed(endpoint: &Endpoint, status: Status) -> RuntimeError {
    RuntimeError::Call {
        call: CALL,
        endpoint: endpoint.clone(),
        about: About::default(),
        status: Box::new(status),
    }
}
