//! The TCP connection, set up so that no socket stays behind after it is closed.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nodewarden_tasks::blocking;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

use super::Fault;
use super::url::is_host;

/// How often a connection that connected to itself is retried (Go's `dialTCP`).
const MEETINGS: usize = 2;

/// Connects to the first address of a name that accepts; if none does, returns the error of the first one.
///
/// The stream is always closed with a reset, so neither end stays in TIME_WAIT or FIN_WAIT2.
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
    // It occupies the thread until the resolver answers, even if the caller has given up by then.
    let looked = blocking::LOOKUPS.run(move || Ok((host.as_str(), port).to_socket_addrs()?.collect()));
    looked.await.map_err(io::Error::other)?
}

async fn connect(address: SocketAddr) -> Result<(TcpStream, SocketAddr), Fault> {
    let dialled = async || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Set before connecting, so that a caller who gives up during the connect leaves no socket behind
        // either.
        socket.set_zero_linger()?;
        socket.connect(address).await
    };
    let connected = async {
        // If no process listens, a local socket whose ephemeral port is the target port connects to itself.
        let mut again = MEETINGS;
        loop {
            let stream = dialled().await?;
            if !is_connected_to_itself(&stream)? {
                return Ok((stream, address));
            }
            again = again.checked_sub(1).ok_or_else(|| io::Error::from_raw_os_error(libc::ECONNREFUSED))?;
        }
    };
    connected.await.map_err(|source| Fault::Connect { address, source })
}

fn is_connected_to_itself(stream: &TcpStream) -> io::Result<bool> {
    Ok(stream.local_addr()? == stream.peer_addr()?)
}

/// The stream below TLS: it keeps the first bytes that the server sent, and is dropped without a shutdown.
#[derive(Debug)]
pub(super) struct PeekedStream {
    stream: TcpStream,
    first: [u8; 5],
    known: usize,
}

impl PeekedStream {
    pub fn new(stream: TcpStream) -> Self {
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

    /// Does nothing, because sending a FIN leads to TIME_WAIT.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_connected_to_itself_is_recognized() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        assert!(is_connected_to_itself(&socket.connect(own).await.unwrap()).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stream, _) = dial("localhost", listener.local_addr().unwrap().port()).await.unwrap();
        assert!(!is_connected_to_itself(&stream).unwrap());
    }
}
