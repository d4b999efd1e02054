//! CRI's stream of container events (KEP-3386).

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
/// Time to wait for a refusal. A runtime refuses the call at once; if it accepts, a gRPC server in Go sends
/// nothing until the first event.
const REFUSAL: Duration = Duration::from_millis(500);

type Opening =
    Pin<Box<dyn Future<Output = Result<Response<Streaming<cri::ContainerEventResponse>>, Status>> + Send>>;

/// A stream of container events. It ends, usually with an error, when the connection breaks; containers must
/// then be listed again, because events in between are not reported.
pub struct Events {
    endpoint: Endpoint,
    state: State,
}

enum State {
    /// The call is pending: no event and no refusal yet.
    Opening(Opening),
    Open(Box<Streaming<cri::ContainerEventResponse>>),
    Ended,
}

impl Client {
    /// The runtime's events from now on; `None` if the runtime does not implement the call (containerd before
    /// 1.7).
    ///
    /// Returns within half a second. A later refusal is the first item of the stream,
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
