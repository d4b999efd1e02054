//! The service `Streams`: logs of containers, and commands in containers.
//!
//! - [`choose`]: finds the pod and container of a request.
//! - [`logs`]: finds the log of a run and sends it to the client.
//! - [`exec`]: passes input and output of a command between the client and the runtime.

mod choose;
mod exec;
mod logs;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;
use proto::streams_server::Streams;
use tokio::sync::{Semaphore, watch};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::connections::{self, STREAMS, WithPlace};
use nodewarden_cri::Client;
use nodewarden_model::AgentState;

/// The sources of logs, and the runtime for commands.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `None` if no runtime is configured.
    pub runtime: Option<Client>,
    /// `podLogsDir`.
    pub logs_dir: PathBuf,
}

/// Implements the calls.
pub(super) struct Service {
    state: Arc<dyn AgentState>,
    sources: Sources,
    stopping: watch::Receiver<bool>,
    /// Places for logs and commands.
    places: Arc<Semaphore>,
}

impl Service {
    /// The service of this agent; when `stopping` becomes true, running streams end.
    pub(super) fn new(state: Arc<dyn AgentState>, sources: Sources, stopping: watch::Receiver<bool>) -> Self {
        Self { state, sources, stopping, places: Arc::new(Semaphore::new(STREAMS)) }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Streams for Service {
    type LogsStream = Answers<proto::LogsResponse>;

    async fn logs(&self, request: Request<proto::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let place = connections::place(&self.places, "logs and commands", STREAMS)?;
        let state = Arc::clone(&self.state);
        let stream =
            logs::stream(state, &self.sources.logs_dir, request.into_inner(), self.stopping.clone()).await?;
        Ok(Response::new(Box::pin(WithPlace::new(stream, place))))
    }

    type ExecStream = Answers<proto::ExecResponse>;

    async fn exec(
        &self,
        request: Request<Streaming<proto::ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let Some(runtime) = self.sources.runtime.clone() else {
            return Err(Status::failed_precondition(
                "the agent has no container runtime: set containerRuntimeEndpoint or --runtime-endpoint",
            ));
        };
        let place = connections::place(&self.places, "logs and commands", STREAMS)?;
        let stream =
            exec::stream(self.state.as_ref(), runtime, request.into_inner(), self.stopping.clone()).await?;
        Ok(Response::new(Box::pin(WithPlace::new(stream, place))))
    }
}

/// The status with which a stopping agent ends a stream.
fn stopping() -> Status {
    Status::unavailable("the agent is stopping")
}
