//! Answering a scrape: the node is read and the text made on a blocking thread, and sent on while it is made, so
//! that an answer of any size costs a few chunks of memory.

use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinError, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;

use super::{App, Endpoint};
use nodewarden_metrics::exposition::{CHUNK_BYTES, CONTENT_TYPE, Exposition};

/// Chunks that wait for a client.
const WAITING_CHUNKS: usize = 4;

/// A client that takes nothing for so long is given up.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// Why no answer was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    #[error("no more requests are served: {0}")]
    Closed(#[from] AcquireError),
    #[error("reading the node failed: {0}")]
    Task(#[from] JoinError),
}

/// Why an answer was cut.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("the client took nothing for {STALL_LIMIT:?}")]
    Stalled,
    #[error("the client closed the connection")]
    Gone,
    #[error("writing the answer failed: {0}")]
    Task(#[from] JoinError),
}

/// Does `work` on a blocking thread, when one of the places for scrapes is free.
pub(super) async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ScrapeError> {
    let place = app.scrapes.clone().acquire_owned().await?;
    let (made, _place) = spawn_blocking(move || (work(), place)).await?;
    Ok(made)
}

/// A 500 that says why.
pub(super) fn failed(endpoint: Endpoint, started: Instant, error: &dyn Display) -> Response {
    tracing::error!(path = endpoint.path(), %error, "HTTP request failed");
    let text = format!("{error}\n");
    endpoint.answered(StatusCode::INTERNAL_SERVER_ERROR, started, text.len());
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

/// Answers with the text that `read`'s result writes. A failure of `read` is a 500; one of the writing, which may
/// have been sent in part, breaks the connection off, so that no client takes a part for the whole.
pub(super) async fn text<R, W>(app: &App, endpoint: Endpoint, read: R) -> Response
where
    R: FnOnce() -> W + Send + 'static,
    W: FnOnce(&mut Exposition<'_>) + Send + 'static,
{
    let started = Instant::now();
    let ready = async {
        let place = app.scrapes.clone().acquire_owned().await?;
        Ok::<_, ScrapeError>((spawn_blocking(read).await?, place))
    };
    let (write, place) = match ready.await {
        Ok(ready) => ready,
        Err(error) => return failed(endpoint, started, &error),
    };
    let (sender, receiver) = mpsc::channel(WAITING_CHUNKS);
    tokio::spawn(async move {
        match send(write, place, sender.clone()).await {
            Ok(bytes) => endpoint.answered(StatusCode::OK, started, bytes),
            // Also a HEAD request, which wants no body.
            Err(Cut::Gone) => tracing::debug!(path = endpoint.path(), "{}", Cut::Gone),
            Err(error) => {
                tracing::warn!(path = endpoint.path(), %error, "HTTP answer cut");
                // Waits until the client takes what was sent before, or is gone.
                let _ = sender.send(Err(io::Error::other(error))).await;
            }
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

type Chunk = io::Result<Bytes>;

/// Writes and sends on a blocking thread; the number of bytes sent.
async fn send(
    write: impl FnOnce(&mut Exposition<'_>) + Send + 'static,
    place: OwnedSemaphorePermit,
    sender: mpsc::Sender<Chunk>,
) -> Result<usize, Cut> {
    let runtime = Handle::current();
    spawn_blocking(move || {
        let _place = place;
        let mut sent = Ok(0);
        let mut spill = |chunk: &mut Vec<u8>| {
            let Ok(bytes) = sent else { return };
            let full = std::mem::replace(chunk, Vec::with_capacity(CHUNK_BYTES + 4096));
            let total = bytes + full.len();
            let taken = async { tokio::time::timeout(STALL_LIMIT, sender.send(Ok(Bytes::from(full)))).await };
            sent = match runtime.block_on(taken) {
                Ok(Ok(())) => Ok(total),
                Ok(Err(_)) => Err(Cut::Gone),
                Err(_) => Err(Cut::Stalled),
            };
        };
        let mut exposition = Exposition::new(&mut spill);
        write(&mut exposition);
        exposition.finish();
        sent
    })
    .await?
}
