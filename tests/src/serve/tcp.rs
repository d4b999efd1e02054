//! Plain TCP listeners: one that accepts connections, and one that does not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{Notes, ServeError};

/// A connection over loopback that takes longer than this is waiting for a place in the queue.
const FULL: Duration = Duration::from_millis(200);
/// More connections than the queue can hold: the kernel accepts one more than the backlog (listen(2)) and
/// rounds up.
const ROOM: usize = 16;

/// Accepts every connection and keeps it open until the client closes it.
pub async fn serve(listener: TcpListener, notes: Arc<Notes>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        notes.add("tcp", "-", "accepted");
        tokio::spawn(async move {
            let mut rest = [0; 64];
            while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
        });
    }
}

/// A listener with a full accept queue: the kernel does not answer further connection attempts.
#[derive(Debug)]
pub struct Deaf {
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Deaf {
    /// # Errors
    /// The port is in use, or the queue does not fill.
    pub async fn new(port: u16) -> Result<Self, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let listener = TcpSocket::new_v4()
            .and_then(|socket| {
                socket.bind(address)?;
                socket.listen(0)
            })
            .map_err(ServeError::at(address))?;
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut queue = Vec::new();
        while let Ok(connected) = tokio::time::timeout(FULL, TcpStream::connect(own)).await {
            queue.push(connected.map_err(ServeError::system("connect"))?);
            if queue.len() > ROOM {
                let source = std::io::Error::other("its accept queue does not fill");
                return Err(ServeError::Listen { address, source });
            }
        }
        Ok(Self { _listener: listener, _queue: queue })
    }
}
