//! Bounds for the clients of the socket: a faulty one must not take the agent's memory or descriptors.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use tonic::transport::server::{Connected, UdsConnectInfo};

/// Open connections. One beyond them is closed at once.
pub const CONNECTIONS: usize = 64;
/// Calls under way on a connection; the client keeps others back, as HTTP/2 has it.
pub const CALLS_PER_CONNECTION: u32 = 64;
/// Subscribers to events.
pub const SUBSCRIBERS: usize = 64;
/// Followed logs and commands in containers.
pub const STREAMS: usize = 64;
/// Bytes of a call's headers.
pub const HEADER_BYTES: u32 = 16 << 10;

/// Those of `incoming` that may stay.
pub fn bounded(
    incoming: impl Stream<Item = io::Result<UnixStream>>,
    connections: usize,
) -> impl Stream<Item = io::Result<Bounded>> {
    let free = Arc::new(Semaphore::new(connections));
    incoming.filter_map(move |stream| match stream {
        // An error: the stream is dropped, which closes the connection.
        Ok(stream) => {
            free.clone().try_acquire_owned().ok().map(|place| Ok(Bounded { stream, _place: place }))
        }
        Err(error) => Some(Err(error)),
    })
}

/// A place for a stream that lasts.
///
/// # Errors
/// RESOURCE_EXHAUSTED: there are as many as there may be.
pub fn place(free: &Arc<Semaphore>, what: &str, bound: usize) -> Result<OwnedSemaphorePermit, Status> {
    let place = free.clone().try_acquire_owned();
    place.map_err(|_| Status::resource_exhausted(format!("the agent serves {bound} {what} already")))
}

/// A connection with its place.
#[derive(Debug)]
pub struct Bounded {
    stream: UnixStream,
    _place: OwnedSemaphorePermit,
}

impl Connected for Bounded {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream of responses with its place.
pub struct WithPlace<S> {
    stream: Pin<Box<S>>,
    place: Option<OwnedSemaphorePermit>,
}

impl<S> WithPlace<S> {
    pub fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        Self { stream: Box::pin(stream), place: Some(place) }
    }
}

impl<S: Stream> Stream for WithPlace<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.stream.as_mut().poll_next(cx);
        if matches!(next, Poll::Ready(None)) {
            drop(mem::take(&mut self.place));
        }
        next
    }
}
