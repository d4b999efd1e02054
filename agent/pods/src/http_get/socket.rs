//! The TCP connection, set up so that no socket stays behind after it is closed.

use std::io;
use std::net::{self, IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect as connect_socket, setsockopt, socket,
    sockopt,
};
use nodewarden_tasks::blocking;
use tokio::net::TcpStream;

use super::Fault;
use super::stream::Stream;
use super::url::is_host;

/// How often a connection that connected to itself is retried (Go's `dialTCP`).
const MEETINGS: usize = 2;

/// Connects to the first address of a name that accepts; if none does, returns the error of the first one.
///
/// The stream is always closed with a reset, so neither end stays in TIME_WAIT or FIN_WAIT2.
pub(crate) async fn dial(host: &str, port: u16) -> Result<(Stream, SocketAddr), Fault> {
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = SocketAddr::new(address, port);
        return Ok((connect(address).await?, address));
    }
    if host.is_empty() || !is_host(host) {
        return Err(Fault::Host(host.to_owned()));
    }
    let failed = |source| Fault::Lookup { host: host.to_owned(), source };
    let mut first = None;
    for address in lookup(host.to_owned(), port).await.map_err(failed)? {
        match connect(address).await {
            Ok(stream) => return Ok((stream, address)),
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

/// Connects to the address. If the peer's kernel accepts or refuses at once, as on the same node, the first
/// poll of the future completes it.
pub(crate) async fn connect(address: SocketAddr) -> Result<Stream, Fault> {
    let connected = async {
        // If no process listens, a local socket whose ephemeral port is the target port connects to itself.
        for _ in 0..=MEETINGS {
            if let Some(stream) = open(begin(address)?).await? {
                return Ok(stream);
            }
        }
        Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
    };
    connected.await.map_err(|source| Fault::Connect { address, source })
}

/// A socket that begins to connect to the address.
fn begin(address: SocketAddr) -> io::Result<net::TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    // Set before connecting, so that a caller who gives up during the connect leaves no socket behind either.
    setsockopt(&socket, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    match connect_socket(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// The open connection; `None` if the socket is connected to itself. Waits only if the peer's kernel has
/// neither accepted nor refused yet.
async fn open(socket: net::TcpStream) -> io::Result<Option<Stream>> {
    if let Ok(peer) = socket.peer_addr() {
        return Ok((peer != socket.local_addr()?).then(|| Stream::new(socket)));
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    let stream = TcpStream::from_std(socket)?;
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    Ok((stream.peer_addr()? != stream.local_addr()?).then(|| stream.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::timeout;

    use super::*;

    fn refused(address: SocketAddr, done: Result<Stream, Fault>) -> bool {
        let Err(fault) = done else { return false };
        fault.to_string() == format!("dial tcp {address}: connect: connection refused")
    }

    /// Without waiting, and so without registering the connection or setting a timer.
    #[tokio::test]
    async fn the_first_poll_opens_a_connection_on_the_same_node() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(any).await.unwrap();
            let address = listener.local_addr().unwrap();
            assert!(connect(address).now_or_never().expect("the connection waits").is_ok());
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.ip(), address.ip());
            drop(listener);
            assert!(refused(address, connect(address).now_or_never().expect("the refusal waits")));
        }
    }

    #[tokio::test]
    async fn a_socket_connected_to_itself_is_recognized() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        let to_itself = socket.connect(own).await.unwrap();
        assert!(open(to_itself.into_std().unwrap()).await.unwrap().is_none());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert!(dial("localhost", listener.local_addr().unwrap().port()).await.is_ok());
    }

    /// The kernel leaves a connection unanswered while the queue of those not accepted is full; the peer asks
    /// again after a second.
    #[tokio::test]
    async fn a_connection_is_opened_after_a_wait() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut held = Vec::new();
        let waiting = loop {
            let mut connecting = Box::pin(connect(address));
            match (&mut connecting).now_or_never() {
                Some(opened) => held.push(opened.unwrap()),
                None => break connecting,
            }
            assert!(held.len() < 16, "the queue has no end");
        };
        for _ in &held {
            listener.accept().await.unwrap();
        }
        let opened = timeout(Duration::from_secs(20), waiting).await.expect("it is never opened").unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        drop(opened);
        let end = timeout(Duration::from_secs(20), async {
            peer.readable().await.unwrap();
            peer.try_read(&mut [0])
        });
        assert_eq!(end.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
