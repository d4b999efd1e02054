//! A connection to a runtime that is read when much of an answer has come. An answer of hundreds of kilobytes
//! comes in dozens of pieces, each of which would wake the agent.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as Unregistered;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Sleep, sleep};

/// With so many bytes read at once the runtime may have more to send than the socket has room for (208 KiB
/// by default, with what the kernel keeps beside them): the rest is waited for as long again, without being
/// woken when it begins to come.
const FULL: usize = 128 << 10;

/// A connection that is read a while after it has something to read, and then until it has nothing.
#[derive(Debug)]
pub struct Patient {
    /// How long that while is; zero for a connection like any other.
    pause: Duration,
    state: State,
    /// Bytes read since that while was over.
    bytes: usize,
}

#[derive(Debug)]
enum State {
    /// It has nothing to read.
    Empty(UnixStream),
    /// It has something, which is left there until the sleep is over, and is then read until it has nothing.
    /// The runtime does not know of it meanwhile: each further piece would wake the runtime although no task
    /// waits for it.
    Waiting(Unregistered, Option<Pin<Box<Sleep>>>, Option<Waker>),
    /// It could not be registered again.
    Broken,
}

impl Patient {
    /// Reads `stream` so long after it has something to read.
    pub fn new(stream: UnixStream, pause: Duration) -> Self {
        Self { pause, state: State::Empty(stream), bytes: 0 }
    }

    /// Goes on to the next state.
    fn change(&mut self, next: impl FnOnce(State) -> io::Result<State>) -> io::Result<()> {
        self.state = next(std::mem::replace(&mut self.state, State::Broken))?;
        Ok(())
    }
}

fn broken() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// The state in which what comes is left unread for a while.
fn waiting(state: State, pause: Duration) -> io::Result<State> {
    match state {
        State::Empty(stream) => Ok(State::Waiting(stream.into_std()?, Some(Box::pin(sleep(pause))), None)),
        other => Ok(other),
    }
}

/// The state in which the runtime wakes the reader when something comes.
fn empty(state: State) -> io::Result<State> {
    match state {
        State::Waiting(stream, _, writer) => {
            let stream = UnixStream::from_std(stream)?;
            // What could not be written is tried again.
            if let Some(writer) = writer {
                writer.wake();
            }
            Ok(State::Empty(stream))
        }
        other => Ok(other),
    }
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let pause = this.pause;
        loop {
            match &mut this.state {
                State::Empty(stream) if pause.is_zero() => return Pin::new(stream).poll_read(cx, into),
                State::Empty(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    this.change(|state| waiting(state, pause))?;
                }
                State::Waiting(stream, until, _) => {
                    if let Some(sleep) = until {
                        ready!(sleep.as_mut().poll(cx));
                        *until = None;
                    }
                    match stream.read(into.initialize_unfilled()) {
                        Ok(bytes) => {
                            this.bytes += bytes;
                            into.advance(bytes);
                            return Poll::Ready(Ok(()));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            if std::mem::take(&mut this.bytes) < FULL {
                                this.change(empty)?;
                            } else {
                                *until = Some(Box::pin(sleep(pause)));
                            }
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                State::Broken => return Poll::Ready(Err(broken())),
            }
        }
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().state {
            State::Empty(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            State::Waiting(stream, _, writer) => match stream.write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *writer = Some(cx.waker().clone());
                    Poll::Pending
                }
                written => Poll::Ready(written),
            },
            State::Broken => Poll::Ready(Err(broken())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            State::Empty(stream) => Pin::new(stream).poll_shutdown(cx),
            State::Waiting(stream, ..) => Poll::Ready(stream.shutdown(Shutdown::Write)),
            State::Broken => Poll::Ready(Err(broken())),
        }
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
    async fn the_rest_of_what_filled_the_socket_wakes_no_task_when_it_begins_to_come() {
        let (mut runtime, own) = UnixStream::pair().unwrap();
        let mut own = Patient::new(own, Duration::from_millis(50));
        for (bytes, is_left) in [(FULL, true), (100, false), (FULL - 1, false)] {
            runtime.write_all(&vec![7; bytes]).await.unwrap();
            own.read_exact(&mut vec![0; bytes]).await.unwrap();
            let more = tokio::time::timeout(Duration::from_millis(5), own.read(&mut [0])).await;
            assert!(more.is_err(), "nothing more has come");
            assert_eq!(matches!(own.state, State::Waiting(..)), is_left, "{bytes}");
        }
        // What comes then is read after the pause.
        runtime.write_all(&vec![7; FULL]).await.unwrap();
        own.read_exact(&mut vec![0; FULL]).await.unwrap();
        runtime.write_all(b"rest").await.unwrap();
        let mut rest = [0; 4];
        own.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"rest");
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

    /// What is written meanwhile arrives, and the end of the connection is seen.
    #[tokio::test]
    async fn it_can_be_written_while_it_is_not_read() {
        let (mut runtime, own) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = tokio::io::split(Patient::new(own, Duration::from_millis(200)));
        let reading = tokio::spawn(async move {
            let mut all = String::new();
            reader.read_to_string(&mut all).await.map(|_| all)
        });
        sleep(Duration::from_millis(20)).await;
        runtime.write_all(b"first").await.unwrap();
        sleep(Duration::from_millis(20)).await;
        // More than the socket has room for, so that the rest waits for the end of the pause.
        let much = vec![7; 4 << 20];
        let writing = tokio::spawn(async move {
            writer.write_all(&much).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        let mut taken = Vec::new();
        runtime.read_to_end(&mut taken).await.unwrap();
        assert_eq!(taken.len(), 4 << 20);
        writing.await.unwrap();
        drop(runtime);
        assert_eq!(reading.await.unwrap().unwrap(), "first");
    }
}
