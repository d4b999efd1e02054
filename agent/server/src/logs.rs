//! A container's log as the body of an answer.

use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nodewarden_cri::logs::{self, LogError, LogPath, Piece};
use nodewarden_model::{AgentState, ContainerState, ContainerView, PodView};
use nodewarden_pods::paths::PodPaths;
use nodewarden_tasks::blocking;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::answer;
use crate::pods::{self, NotFound};
use crate::query::LogOptions;

/// Pieces that wait for a client.
const WAITING: usize = 4;

type Chunk = Result<Bytes, LogError>;

/// Sends the log of a container. A log that is followed ends with its container, with the client, and when
/// `stopping` becomes true.
pub async fn respond(
    state: Arc<dyn AgentState>,
    logs_dir: &Path,
    pod: &PodView,
    container: &ContainerView,
    options: LogOptions,
    stopping: watch::Receiver<bool>,
) -> Response {
    let path = match find(logs_dir, pod, container, options.previous).await {
        Ok(path) => path,
        // As the kubelet, whatever is the matter.
        Err(error) => return answer::text(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let alive = (options.follow && !options.previous).then(|| {
        let (uid, name, id) = (pod.pod.uid.clone(), container.name.clone(), container.id.clone());
        move || is_running(state.as_ref(), &uid, &name, &id)
    });
    let (chunks, body) = mpsc::channel::<Chunk>(WAITING);
    tokio::spawn(send(path, options, alive, chunks, stopping));
    let body = Body::from_stream(ReceiverStream::new(body));
    ([(header::CONTENT_TYPE, "text/plain")], body).into_response()
}

async fn send(
    path: LogPath,
    options: LogOptions,
    alive: Option<impl Fn() -> bool>,
    chunks: mpsc::Sender<Chunk>,
    mut stopping: watch::Receiver<bool>,
) {
    let (out, pieces) = mpsc::channel(WAITING);
    let work = async {
        let (sent, ()) =
            tokio::join!(logs::send(&path, &options.request, alive, out), forward(pieces, &chunks));
        if let Err(error) = sent {
            tracing::warn!(%error, "a container's log is cut");
            let _gone = chunks.send(Err(error)).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = chunks.closed() => {}
        // An error means that the server has ended.
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

async fn forward(mut pieces: mpsc::Receiver<Piece>, chunks: &mpsc::Sender<Chunk>) {
    while let Some(piece) = pieces.recv().await {
        if chunks.send(Ok(piece.bytes.into())).await.is_err() {
            return;
        }
    }
}

/// The log of the run that is meant.
async fn find(
    logs_dir: &Path,
    pod: &PodView,
    container: &ContainerView,
    previous: bool,
) -> Result<LogPath, NotFound> {
    let (pod_logs, name) = (PodPaths::new(Path::new(""), logs_dir, &pod.pod).logs, container.name.clone());
    let runs = blocking::LOG_READING.run(move || logs::runs(&pod_logs, &name)).await;
    let runs = runs.map_err(|error| NotFound::Log(error.to_string()))?;
    let runs = runs.map_err(|error| NotFound::Log(error.to_string()))?;
    pods::log(runs, previous, container, pod)
}

/// Whether the container of the request is still running and was not replaced.
fn is_running(state: &dyn AgentState, uid: &str, name: &str, id: &str) -> bool {
    state.pods().iter().filter(|pod| pod.pod.uid == uid).flat_map(|pod| &pod.containers).any(|container| {
        container.name == name
            && container.id == id
            && matches!(container.state, ContainerState::Running { .. })
    })
}
