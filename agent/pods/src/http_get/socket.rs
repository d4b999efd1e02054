//! The connection below: made so that none of it stays.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use super::Fault;
use super::url::is_host;

/// Names that are looked up at a time: a resolver that hangs holds a thread for each, and threads for what blocks are few
/// in this agent.
static LOOKUPS: Semaphore = Semaphore::const_new(2);
/// How often a connection that met itself is made again (Go's `dialTCP`).
const MEETINGS: usize = 2;

/// Connects; of a name's addresses the first that answers, and the first one's error.
///
/// However the stream ends, it is with a reset: nothing of it waits in TIME_WAIT or FIN_WAIT2, at neither end.
pub(crate) async fn dial(host: &str, port: u16) -> Result<(TcpStream, SocketAddr), Fault> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return connect(SocketAddr::new(address, port)).await;
    }
    if host.is_empty() || !is_host(host) {
        return Err(Fault::Host(host.to_owned()));
    }
    let failed = |source| Fault::Lookup { host: host.to_owned(), source };
    let mut first = None;
    for address in lookup(host.to_owned(), port).await.map_err(failed)? {
        match connect(address).await {
            Ok(connected) => return Ok(connected),
            Err(fault) => first = first.or(Some(fault)),
        }
    }
    Err(first.unwrap_or_else(|| failed(io::ErrorKind::NotFound.into())))
}

async fn lookup(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let turn = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let looked = tokio::task::spawn_blocking(move || {
        // Until the resolver has answered, whoever has given up on it by then.
        let _turn = turn;
        Ok((host.as_str(), port).to_socket_addrs()?.collect())
    });
    looked.await.map_err(io::Error::other)?
}

async fn connect(address: SocketAddr) -> Result<(TcpStream, SocketAddr), Fault> {
    let dialled = async || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Before it is connected: who gives up just then leaves nothing either.
        socket.set_zero_linger()?;
        socket.connect(address).await
    };
    let connected = async {
        // Where nobody listens, a socket of this machine that is given the very port it looks for connects to itself.
        let mut again = MEETINGS;
        loop {
            let stream = dialled().await?;
            if !met_itself(&stream)? {
                return Ok((stream, address));
            }
            again = again.checked_sub(1).ok_or_else(|| io::Error::from_raw_os_error(libc::ECONNREFUSED))?;
        }
    };
    connected.await.map_err(|source| Fault::Connect { address, source })
}

fn met_itself(stream: &TcpStream) -> io::Result<bool> {
    Ok(stream.local_addr()? == stream.peer_addr()?)
}

/// What TLS is spoken over: it knows how the server's first words began, and is never shut down but dropped.
#[derive(Debug)]
pub(super) struct Overheard {
    stream: TcpStream,
    first: [u8; 5],
    heard: usize,
}

impl Overheard {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, first: [0; 5], heard: 0 }
    }

    /// At most five bytes.
    pub fn first(&self) -> &[u8] {
        &self.first[..self.heard]
    }
}

impl AsyncRead for Overheard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let (new, heard) = (&into.filled()[before..], self.heard);
        let more = new.len().min(self.first.len() - heard);
        self.first[heard..heard + more].copy_from_slice(&new[..more]);
        self.heard += more;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Overheard {
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

    /// A FIN of ours is what leads to TIME_WAIT.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_met_itself_is_known() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        assert!(met_itself(&socket.connect(own).await.unwrap()).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stream, _) = dial("localhost", listener.local_addr().unwrap().port()).await.unwrap();
        assert!(!met_itself(&stream).unwrap());
    }
}
