//! Raw listeners: one that accepts, and one that does not.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{Notes, ServeError};

/// A connection over loopback that is not there by then waits for a place.
const FULL: Duration = Duration::from_millis(200);
/// The kernel has room for one more than it is told (listen(2)), and rounds up.
const ROOM: usize = 16;

/// Accepts and holds every connection until the other side goes.
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

/// A listener whose line is full: the kernel leaves who connects without an answer.
#[derive(Debug)]
pub struct Deaf {
    _listener: TcpListener,
    _line: Vec<TcpStream>,
}

impl Deaf {
    /// # Errors
    /// The port is taken, or the line does not fill.
    pub async fn new(port: u16) -> Result<Self, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let listener = TcpSocket::new_v4()
            .and_then(|socket| {
                socket.bind(address)?;
                socket.listen(0)
            })
            .map_err(ServeError::at(address))?;
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut line = Vec::new();
        while let Ok(connected) = tokio::time::timeout(FULL, TcpStream::connect(own)).await {
            line.push(connected.map_err(ServeError::system("connect"))?);
            if line.len() > ROOM {
                let source = std::io::Error::other("its line does not fill");
                return Err(ServeError::Listen { address, source });
            }
        }
        Ok(Self { _listener: listener, _line: line })
    }
}
