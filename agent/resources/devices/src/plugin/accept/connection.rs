//! A connection whose requests get a plain authority.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tonic::transport::server::{Connected, UdsConnectInfo};

use super::authority::{Frames, PREFACE};

/// Bytes that are read at a time.
const PIECE: usize = 16 << 10;
/// How long a client may take for the connection preface.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    frames: Frames,
    /// Rewritten bytes; those from index `taken` on are not yet returned.
    ready: Vec<u8>,
    taken: usize,
    /// Bytes of the preface that have not arrived yet, and the end of the time for them.
    preface: usize,
    late: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Must be called inside a tokio runtime. `place` is free again when the connection is closed.
    pub fn new(stream: UnixStream, place: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            ready: Vec::new(),
            taken: 0,
            preface: PREFACE,
            late: Box::pin(tokio::time::sleep(PATIENCE)),
            _place: place,
        }
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
            match Pin::new(&mut this.stream).poll_read(cx, &mut piece) {
                Poll::Ready(read) => read?,
                Poll::Pending if this.preface > 0 => {
                    ready!(this.late.as_mut().poll(cx));
                    return Poll::Ready(Err(ErrorKind::TimedOut.into()));
                }
                Poll::Pending => return Poll::Pending,
            }
            this.preface = this.preface.saturating_sub(piece.filled().len());
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;

    use super::*;

    /// What reading from a connection gives in a minute, when the client sends this and then nothing.
    async fn read(sent: &[u8]) -> Option<ErrorKind> {
        let (mut client, server) = UnixStream::pair().unwrap();
        let free = Arc::new(Semaphore::new(1));
        let mut connection = Connection::new(server, free.clone().try_acquire_owned().unwrap());
        client.write_all(sent).await.unwrap();
        let read = async {
            let mut all = Vec::new();
            connection.read_to_end(&mut all).await.map_err(|error| error.kind()).err()
        };
        let read = tokio::time::timeout(Duration::from_secs(60), read).await.ok().flatten();
        assert_eq!(free.available_permits(), 0);
        drop(connection);
        assert_eq!(free.available_permits(), 1);
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_no_preface_is_cut_off() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(preface.len(), PREFACE);
        for sent in [&b""[..], &preface[..1], &preface[..PREFACE - 1]] {
            assert_eq!(read(sent).await, Some(ErrorKind::TimedOut), "{} bytes", sent.len());
        }
        assert_eq!(read(preface).await, None, "the server keeps it");
    }
}
