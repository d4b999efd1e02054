//! Responds to a scrape: a blocking thread reads the node and produces the text, which is sent at the same
//! time, so that a response of any size needs the memory of a few chunks.

use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, mpsc};
use tokio::task::JoinError;
use tokio_stream::wrappers::ReceiverStream;

use super::{App, Endpoint};
use nodewarden_metrics::exposition::{CHUNK_BYTES, CONTENT_TYPE, Exposition};
use nodewarden_tasks::blocking;

/// Maximum number of chunks waiting for a client.
const WAITING_CHUNKS: usize = 4;

/// A client that reads nothing for this long is disconnected.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScrapeError {
    #[error("no more requests are served: {0}")]
    Closed(#[from] AcquireError),
    #[error("reading the node failed: {0}")]
    Task(#[from] JoinError),
}

/// Why a response was cut off.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("the client took nothing for {STALL_LIMIT:?}")]
    Stalled,
    #[error("the client closed the connection")]
    Gone,
    #[error("writing the answer failed: {0}")]
    Task(#[from] JoinError),
}

/// Runs `work` on a blocking thread when one of the permits for scrapes is free.
pub(super) async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ScrapeError> {
    let place = app.scrapes.clone().acquire_owned().await?;
    let (made, _place) = blocking::SCRAPES.run(move || (work(), place)).await?;
    Ok(made)
}

/// A response with status 500 and the error as text.
pub(super) fn failed(endpoint: Endpoint, started: Instant, error: &dyn Display) -> Response {
    tracing::error!(path = endpoint.path(), %error, "HTTP request failed");
    let text = format!("{error}\n");
    endpoint.answered(StatusCode::INTERNAL_SERVER_ERROR, started, text.len());
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

/// Responds with the text that the result of `read` writes. If `read` fails, the status is 500. If writing
/// fails after a part was sent, the connection is aborted, so that no client takes the part for a whole
/// response.
pub(super) async fn text<R, W>(app: &App, endpoint: Endpoint, read: R) -> Response
where
    R: FnOnce() -> W + Send + 'static,
    W: FnOnce(&mut Exposition<'_>) + Send + 'static,
{
    let started = Instant::now();
    let ready = async {
        let place = app.scrapes.clone().acquire_owned().await?;
        Ok::<_, ScrapeError>((blocking::SCRAPES.run(read).await?, place))
    };
    let (write, place) = match ready.await {
        Ok(ready) => ready,
        Err(error) => return failed(endpoint, started, &error),
    };
    let (sender, receiver) = mpsc::channel(WAITING_CHUNKS);
    tokio::spawn(async move {
        match send(write, place, sender.clone()).await {
            Ok(bytes) => endpoint.answered(StatusCode::OK, started, bytes),
            // Also after a HEAD request, which has no body.
            Err(Cut::Gone) => tracing::debug!(path = endpoint.path(), "{}", Cut::Gone),
            Err(error) => {
                tracing::warn!(path = endpoint.path(), %error, "HTTP answer cut");
                // Waits until the client has read the previous chunks or disconnected.
                let _ = sender.send(Err(io::Error::other(error))).await;
            }
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

type Chunk = io::Result<Bytes>;

/// The text of a chunk. Its buffer is used for a later one when this one was sent: new ones of this size
/// would make the allocator tidy up each time.
struct Lent {
    text: Vec<u8>,
    back: std::sync::mpsc::Sender<Vec<u8>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After the last chunk its receiver is gone.
        let _ = self.back.send(std::mem::take(&mut self.text));
    }
}

/// Sends a chunk, and waits only while too many are on their way.
fn hand_on(sender: &mpsc::Sender<Chunk>, chunk: Bytes, runtime: &Handle) -> Result<(), Cut> {
    let chunk = match sender.try_send(Ok(chunk)) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Closed(_)) => return Err(Cut::Gone),
        Err(TrySendError::Full(chunk)) => chunk,
    };
    let taken = async { tokio::time::timeout(STALL_LIMIT, sender.send(chunk)).await };
    match runtime.block_on(taken) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Cut::Gone),
        Err(_) => Err(Cut::Stalled),
    }
}

/// Writes and sends on a blocking thread; returns the number of bytes sent.
async fn send(
    write: impl FnOnce(&mut Exposition<'_>) + Send + 'static,
    place: OwnedSemaphorePermit,
    sender: mpsc::Sender<Chunk>,
) -> Result<usize, Cut> {
    let runtime = Handle::current();
    let work = move || {
        let _place = place;
        let mut sent = Ok(0);
        let (back, returned) = std::sync::mpsc::channel();
        let mut spill = |chunk: &mut Vec<u8>| {
            let Ok(bytes) = sent else { return };
            let empty = returned.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES + 4096));
            let text = std::mem::replace(chunk, empty);
            let total = bytes + text.len();
            let taken = hand_on(&sender, Bytes::from_owner(Lent { text, back: back.clone() }), &runtime);
            sent = taken.map(|()| total);
        };
        let mut exposition = Exposition::new(&mut spill);
        write(&mut exposition);
        exposition.finish();
        sent
    };
    blocking::SCRAPES.run(work).await?
}
