//! A connection to a runtime that is read when much of an answer has come. An answer of hundreds of kilobytes
//! comes in dozens of pieces, each of which would wake the agent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Sleep, sleep};

/// A connection that is read a while after it has something to read, and then until it has nothing.
#[derive(Debug)]
pub struct Patient {
    stream: UnixStream,
    /// How long that while is; zero for a connection like any other.
    pause: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It is read until it has nothing to read.
    Reading,
    /// It had nothing.
    Empty,
    /// It has something.
    Pausing(Pin<Box<Sleep>>),
}

impl Patient {
    /// Reads `stream` so long after it has something to read.
    pub fn new(stream: UnixStream, pause: Duration) -> Self {
        Self { stream, pause, state: State::Reading }
    }
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Reading => {
                    let read = Pin::new(&mut this.stream).poll_read(cx, into);
                    if read.is_pending() && !this.pause.is_zero() {
                        this.state = State::Empty;
                    }
                    return read;
                }
                State::Empty => {
                    ready!(this.stream.poll_read_ready(cx))?;
                    this.state = State::Pausing(Box::pin(sleep(this.pause)));
                }
                State::Pausing(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    this.state = State::Reading;
                }
            }
        }
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What each read returns of pieces that are written one after the other, and then of the end.
    async fn reads(pause: Duration) -> Vec<String> {
        let (mut runtime, own) = UnixStream::pair().unwrap();
        let mut own = Patient::new(own, pause);
        let reader = tokio::spawn(async move {
            let (mut all, mut buffer) = (Vec::new(), [0; 64]);
            loop {
                let read = own.read(&mut buffer).await.unwrap();
                all.push(String::from_utf8_lossy(&buffer[..read]).into_owned());
                if read == 0 {
                    return all;
                }
            }
        });
        for piece in ["a", "b", "c"] {
            // Time for the reader to take what was there before.
            sleep(Duration::from_millis(20)).await;
            runtime.write_all(piece.as_bytes()).await.unwrap();
        }
        drop(runtime);
        reader.await.unwrap()
    }

    #[tokio::test]
    async fn the_pieces_of_an_answer_are_read_together() {
        assert_eq!(reads(Duration::from_millis(500)).await, ["abc", ""]);
    }

    #[tokio::test]
    async fn without_a_pause_each_is_read_when_it_comes() {
        assert_eq!(reads(Duration::ZERO).await, ["a", "b", "c", ""]);
    }

    #[tokio::test]
    async fn an_answer_that_was_read_is_followed_by_another() {
        let (mut runtime, own) = UnixStream::pair().unwrap();
        let mut own = Patient::new(own, Duration::from_millis(5));
        for n in 0..3u8 {
            own.write_all(&[n]).await.unwrap();
            assert_eq!(runtime.read_u8().await.unwrap(), n);
            runtime.write_all(&[n; 3]).await.unwrap();
            let mut answer = [9; 3];
            own.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, [n; 3]);
        }
    }
}
