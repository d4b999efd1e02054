//! A connection whose requests get a plain authority.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

use super::authority::Frames;

/// Bytes that are read at a time.
const PIECE: usize = 16 << 10;

#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    frames: Frames,
    /// Rewritten bytes; those from index `taken` on are not yet returned.
    ready: Vec<u8>,
    taken: usize,
}

impl Connection {
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, frames: Frames::default(), ready: Vec::new(), taken: 0 }
    }
}

impl Connected for Connection {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.taken == this.ready.len() {
            let mut piece = [0; PIECE];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.ready.clear();
            this.taken = 0;
            this.frames.take(piece.filled(), &mut this.ready);
        }
        let now = buf.remaining().min(this.ready.len() - this.taken);
        buf.put_slice(&this.ready[this.taken..this.taken + now]);
        this.taken += now;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
