//! The calls of `nodewarden.v1.Garbage`: the node's images, and a collection with its steps.

mod convert;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1 as proto;
use proto::collect_garbage_response::Message;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status};

use super::time;
use nodewarden_model::GcSettings;
use nodewarden_model::{AgentState, GcStep, ImageGc, ImagesView};
use nodewarden_tasks::blocking;

/// Implements the calls; see the module.
pub(super) struct Service {
    state: Arc<dyn AgentState>,
    stopping: watch::Receiver<bool>,
}

type Answer = Result<proto::CollectGarbageResponse, Status>;

impl Service {
    /// The service of this agent; when `stopping` becomes true, running streams end.
    pub(super) fn new(state: Arc<dyn AgentState>, stopping: watch::Receiver<bool>) -> Self {
        Self { state, stopping }
    }

    fn image_gc(&self) -> Result<Arc<dyn ImageGc>, Status> {
        self.state.image_gc().ok_or_else(|| {
            Status::failed_precondition(
                "the agent has no container runtime: set containerRuntimeEndpoint or --runtime-endpoint",
            )
        })
    }

    async fn mode(&self) -> Result<String, Status> {
        let state = Arc::clone(&self.state);
        // Reading the status blocks, because it reads the cost of every program.
        let mode = blocking::QUERIES.run(move || state.status().mode).await;
        mode.map_err(|e| Status::internal(format!("reading the agent's status failed: {e}")))
    }
}

#[tonic::async_trait]
impl proto::garbage_server::Garbage for Service {
    async fn list_images(
        &self,
        _: Request<proto::ListImagesRequest>,
    ) -> Result<Response<proto::ListImagesResponse>, Status> {
        let images = self.image_gc()?;
        let view = images.view().await;
        Ok(Response::new(proto::ListImagesResponse {
            time: Some(time::from_timestamp(Timestamp::now())),
            mode: self.mode().await?,
            ..answer_of(view, &images.settings())
        }))
    }

    type CollectGarbageStream = Pin<Box<dyn Stream<Item = Answer> + Send>>;

    async fn collect_garbage(
        &self,
        request: Request<proto::CollectGarbageRequest>,
    ) -> Result<Response<Self::CollectGarbageStream>, Status> {
        // Nothing is changed in this mode.
        if self.mode().await? == "observe" {
            return Err(Status::failed_precondition(
                "the agent is in mode observe, where nothing is removed: `nodewarden images` shows what would be removed",
            ));
        }
        let images = self.image_gc()?;
        let (answers, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run(images, request.into_inner().dry_run, answers, self.stopping.clone()));
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(receiver))))
    }
}

/// The answer without time and mode.
pub fn answer_of(view: ImagesView, settings: &GcSettings) -> proto::ListImagesResponse {
    proto::ListImagesResponse { settings: Some(convert::settings(settings)), ..convert::images(view) }
}

/// Runs one collection to its end, even after the client has gone: what was begun is finished.
async fn run(
    images: Arc<dyn ImageGc>,
    dry: bool,
    answers: mpsc::UnboundedSender<Answer>,
    mut stopping: watch::Receiver<bool>,
) {
    let (steps, mut taken) = mpsc::unbounded_channel::<GcStep>();
    let send = |message| {
        let _gone = answers.send(message);
    };
    let work = async {
        let passing = async {
            while let Some(step) = taken.recv().await {
                send(answer(Message::Step(convert::step(step))));
            }
        };
        // The collection owns the sender of steps, so none comes after the outcome.
        let (outcome, ()) = tokio::join!(images.collect(dry, steps), passing);
        send(match outcome {
            Ok(outcome) => answer(Message::Outcome(convert::outcome(outcome))),
            Err(error) => Err(Status::aborted(error)),
        });
    };
    tokio::select! {
        () = work => {}
        // An error means that the server has ended.
        _ = stopping.wait_for(|stop| *stop) => send(Err(Status::unavailable("the agent is stopping"))),
    }
}

fn answer(message: Message) -> Answer {
    Ok(proto::CollectGarbageResponse { message: Some(message) })
}
