//! Responds to a scrape: a blocking thread reads the node and produces the text, which is sent at the same
//! time, so that a response of any size needs the memory of a few chunks. For the largest document the thread
//! that received the request reads the node, and it writes what it sends piece by piece ([`document`]):
//! handing work or megabytes from one thread to another takes longer.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, mpsc};
use tokio::task::JoinError;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

use super::{App, Endpoint};
use nodewarden_metrics::cadvisor::Document;
use nodewarden_metrics::exposition::{CHUNK_BYTES, CONTENT_TYPE, Exposition, ROOM};
use nodewarden_tasks::blocking::{self, Panicked};

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
    #[error("reading the node failed: {0}")]
    Panicked(#[from] Panicked),
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
    let (write, place) = match read_now(app, read).await {
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

/// Reads the node when one of the permits for scrapes is free, which is returned too.
async fn read_now<T: Send + 'static>(
    app: &App,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, OwnedSemaphorePermit), ScrapeError> {
    let place = app.scrapes.clone().acquire_owned().await?;
    Ok((blocking::SCRAPES.run(read).await?, place))
}

/// The same on this thread ([`blocking::Purpose::run_in_place`]).
async fn read_in_place<T>(
    app: &App,
    read: impl FnOnce() -> T,
) -> Result<(T, OwnedSemaphorePermit), ScrapeError> {
    let place = app.scrapes.clone().acquire_owned().await?;
    Ok((blocking::SCRAPES.run_in_place(read).await?, place))
}

/// Responds with the document that `read` returns. If `read` fails, the status is 500.
pub(super) async fn document<R>(app: &App, endpoint: Endpoint, read: R) -> Response
where
    R: FnOnce() -> Document,
{
    let started = Instant::now();
    match read_in_place(app, read).await {
        Ok((document, place)) => {
            let pieces = Pieces {
                document,
                endpoint,
                started,
                buffers: Buffers::default(),
                bytes: 0,
                is_whole: false,
                in_a_row: 0,
                _place: place,
            };
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from_stream(pieces)).into_response()
        }
        Err(error) => failed(endpoint, started, &error),
    }
}

/// After so many chunks in a row others run on the thread: each takes it for 0.05 ms.
const IN_A_ROW: u8 = 64;

/// The chunks of a document. A client that takes none of them for ten seconds is disconnected by
/// [`super::stalling`].
struct Pieces {
    document: Document,
    endpoint: Endpoint,
    started: Instant,
    buffers: Buffers,
    bytes: usize,
    /// Whether the last chunk was taken.
    is_whole: bool,
    in_a_row: u8,
    _place: OwnedSemaphorePermit,
}

impl Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.in_a_row == IN_A_ROW {
            this.in_a_row = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.in_a_row += 1;
        let mut text = this.buffers.empty();
        while text.len() < CHUNK_BYTES && this.document.write_next(&mut text) {}
        if text.is_empty() {
            if !std::mem::replace(&mut this.is_whole, true) {
                this.endpoint.answered(StatusCode::OK, this.started, this.bytes);
            }
            return Poll::Ready(None);
        }
        this.bytes += text.len();
        Poll::Ready(Some(Ok(this.buffers.lend(text))))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if !self.is_whole {
            // Also after a HEAD request, which has no body.
            tracing::debug!(path = self.endpoint.path(), "{}", Cut::Gone);
        }
    }
}

type Chunk = io::Result<Bytes>;

/// The buffers of chunks. One that was sent is used for a later chunk: new ones of this size would make the
/// allocator tidy up each time.
struct Buffers {
    back: std::sync::mpsc::Sender<Vec<u8>>,
    returned: std::sync::mpsc::Receiver<Vec<u8>>,
}

impl Default for Buffers {
    fn default() -> Self {
        let (back, returned) = std::sync::mpsc::channel();
        Self { back, returned }
    }
}

impl Buffers {
    fn empty(&self) -> Vec<u8> {
        let mut buffer = self.returned.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES + ROOM));
        buffer.clear();
        buffer
    }

    fn lend(&self, text: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { text, back: self.back.clone() })
    }
}

/// The text of a chunk, whose buffer is returned when it was sent.
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
        let buffers = Buffers::default();
        let mut spill = |chunk: &mut Vec<u8>| {
            let Ok(bytes) = sent else { return };
            let text = std::mem::replace(chunk, buffers.empty());
            let total = bytes + text.len();
            sent = hand_on(&sender, buffers.lend(text), &runtime).map(|()| total);
        };
        let mut exposition = Exposition::new(&mut spill);
        write(&mut exposition);
        exposition.finish();
        sent
    };
    blocking::SCRAPES.run(work).await?
}
