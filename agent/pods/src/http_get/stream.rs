//! A TCP connection that is registered with tokio's reactor only when it has to wait.
//!
//! A server on this node has usually answered before its client looks for the answer, so most connections of
//! probes never wait. Registering one costs two system calls and a wake-up of the thread.

use std::io::{self, IoSlice, Read, Write};
use std::net;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// An open connection. It must be used inside a tokio runtime.
#[derive(Debug)]
pub(crate) struct Stream(State);

#[derive(Debug)]
enum State {
    /// Not registered. `postponed`: the caller was asked once to read again later.
    Direct {
        stream: net::TcpStream,
        postponed: bool,
    },
    Registered(TcpStream),
    /// It could not be registered.
    Closed,
}

impl Stream {
    /// `stream` must be connected and not blocking.
    pub fn new(stream: net::TcpStream) -> Self {
        Self(State::Direct { stream, postponed: false })
    }

    /// Sends small pieces at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send_at_once(&self) -> io::Result<()> {
        match &self.0 {
            State::Direct { stream, .. } => stream.set_nodelay(true),
            State::Registered(stream) => stream.set_nodelay(true),
            State::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The registered stream; from now on every call waits in the reactor.
    fn registered(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let State::Direct { .. } = &self.0
            && let State::Direct { stream, .. } = std::mem::replace(&mut self.0, State::Closed)
        {
            self.0 = State::Registered(TcpStream::from_std(stream)?);
        }
        match &mut self.0 {
            State::Registered(stream) => Ok(Pin::new(stream)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Writes with `direct` as long as the connection is not registered and takes bytes.
    fn write_directly(
        &mut self,
        direct: impl FnOnce(&mut net::TcpStream) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let State::Direct { stream, .. } = &mut self.0 else { return None };
        Some(direct(stream)).filter(|done| !must_wait(done))
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self(State::Registered(stream))
    }
}

fn must_wait(done: &io::Result<usize>) -> bool {
    done.as_ref()
        .is_err_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted))
}

impl AsyncRead for Stream {
    /// The first call reads nothing, because an answer takes longer than it takes to ask for it: the caller's
    /// task is woken at once, and reads after the other tasks that can run.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let State::Direct { stream, postponed } = &mut self.0 {
            if !std::mem::replace(postponed, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let done = stream.read(into.initialize_unfilled());
            if !must_wait(&done) {
                return Poll::Ready(done.map(|count| into.advance(count)));
            }
        }
        // Registered by now at the latest: the reactor reports what has come before, too.
        self.registered()?.poll_read(cx, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.write_directly(|stream| stream.write(bytes)) {
            Some(done) => Poll::Ready(done),
            None => self.registered()?.poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.write_directly(|stream| stream.write_vectored(parts)) {
            Some(done) => Poll::Ready(done),
            None => self.registered()?.poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing, because sending a FIN leads to TIME_WAIT.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The stream below TLS: it keeps the first bytes that the server sent.
#[derive(Debug)]
pub(super) struct PeekedStream {
    stream: Stream,
    first: [u8; 5],
    known: usize,
}

impl PeekedStream {
    pub fn new(stream: Stream) -> Self {
        Self { stream, first: [0; 5], known: 0 }
    }

    /// The first bytes received, at most five.
    pub fn first(&self) -> &[u8] {
        &self.first[..self.known]
    }
}

impl AsyncRead for PeekedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let (new, known) = (&into.filled()[before..], self.known);
        let more = new.len().min(self.first.len() - known);
        self.first[known..known + more].copy_from_slice(&new[..more]);
        self.known += more;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PeekedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    /// Longer than anything here takes.
    const LIMIT: Duration = Duration::from_secs(20);

    /// The two ends of a connection.
    fn pair() -> (Stream, net::TcpStream) {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        own.set_nonblocking(true).unwrap();
        (Stream::new(own), listener.accept().unwrap().0)
    }

    fn is_registered(stream: &Stream) -> bool {
        matches!(stream.0, State::Registered(_))
    }

    #[tokio::test]
    async fn an_answer_that_is_there_is_read_without_registering() {
        let (mut stream, mut peer) = pair();
        stream.write_all(b"ask").now_or_never().expect("it waits to write").unwrap();
        peer.read_exact(&mut [0; 3]).unwrap();
        peer.write_all(b"answer").unwrap();
        let mut read = [0; 6];
        timeout(LIMIT, stream.read_exact(&mut read)).await.expect("the reader is not woken").unwrap();
        assert_eq!((&read, is_registered(&stream)), (b"answer", false));
        drop(peer);
        assert_eq!(stream.read(&mut read).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_later_answer_in_pieces_is_waited_for() {
        let (mut stream, mut peer) = pair();
        let asking = async {
            let mut read = [0; 9];
            stream.read_exact(&mut read).await.unwrap();
            let end = stream.read(&mut [0]).await;
            (read, end.map_err(|error| error.kind()), is_registered(&stream))
        };
        let answering = async {
            for piece in ["one", "two", "six"] {
                tokio::time::sleep(Duration::from_millis(20)).await;
                peer.write_all(piece.as_bytes()).unwrap();
            }
            drop(peer);
        };
        let (seen, ()) = timeout(LIMIT, async { tokio::join!(asking, answering) }).await.unwrap();
        assert_eq!(seen, (*b"onetwosix", Ok(0), true));
    }

    /// What came between the last look and the registration is reported as well.
    #[tokio::test]
    async fn a_registration_misses_nothing() {
        let (mut stream, mut peer) = pair();
        peer.write_all(b"early").unwrap();
        stream.registered().unwrap();
        let mut read = [0; 5];
        timeout(LIMIT, stream.read_exact(&mut read)).await.expect("it was missed").unwrap();
        assert_eq!(&read, b"early");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_waited_for() {
        const SIZE: usize = 32 << 20;
        let (mut stream, mut peer) = pair();
        let bytes = vec![7; SIZE];
        let mut writing = Box::pin(stream.write_all(&bytes));
        assert!((&mut writing).now_or_never().is_none(), "the buffers have room for everything");
        let reading = std::thread::spawn(move || peer.read_exact(&mut vec![0; SIZE]));
        timeout(LIMIT, writing).await.expect("the writer is not woken").unwrap();
        reading.join().unwrap().unwrap();
        assert!(is_registered(&stream));
    }
}
