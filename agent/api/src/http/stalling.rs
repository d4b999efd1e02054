//! A connection that breaks when the client takes nothing of what is written for too long.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take nothing. Clones share it, so that it can be changed for a connection that has
/// become a stream.
#[derive(Debug, Clone)]
pub struct StallLimit(Arc<AtomicU64>);

impl StallLimit {
    /// Changes the limit; `None`: the client may take nothing for ever.
    pub fn set(&self, limit: Option<Duration>) {
        let millis = limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.0.store(millis, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl From<Duration> for StallLimit {
    fn from(limit: Duration) -> Self {
        let this = Self(Arc::default());
        this.set(Some(limit));
        this
    }
}

/// A connection that breaks when the client takes nothing for too long.
#[derive(Debug)]
pub struct Stalling<S> {
    stream: S,
    limit: StallLimit,
    /// Ends with the limit; `None` while the client takes what is written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    /// The connection `stream` with this limit.
    pub fn new(stream: S, limit: StallLimit) -> Self {
        Self { stream, limit, stalled: None }
    }

    /// The connection itself.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The result of writing, or an error when it has been pending for too long.
    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = &self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit.get())));
        stalled.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
