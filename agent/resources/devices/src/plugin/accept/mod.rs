//! Accepts connections of other programs as long as a server runs.
//!
//! Clients on Unix sockets send authorities that are not valid in a URI: grpc-go with its own dialer (most
//! device plugins) the socket's path, grpc-core (Python, C++) since 1.58 its percent-encoding, others
//! nothing. The HTTP/2 library refuses such requests as malformed before the server sees them. So incoming
//! bytes pass through [`authority::Frames`], which replaces the authority with a plain name that nothing
//! reads.

pub(super) mod authority;
mod connection;
mod hpack;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tonic::transport::Server;
use tracing::{debug, warn};

use connection::Connection;

/// Wait before the next attempt after a connection could not be accepted, for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_secs(1);

/// Open connections of a server. One beyond them is closed at once, and the client tries again.
pub const CONNECTIONS: usize = 64;
/// Calls under way on a connection; the client keeps others back, as HTTP/2 has it.
const CALLS_PER_CONNECTION: u32 = 64;
/// Bytes of a call's headers.
const HEADER_BYTES: u32 = 16 << 10;
/// A client that does not answer a ping, sent after so long, is disconnected.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A server with bounds for what its clients can make grow.
pub fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(CALLS_PER_CONNECTION)
        .http2_max_header_list_size(HEADER_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
}

/// A stream of incoming connections, of which at most [`CONNECTIONS`] are open. A failed one does not end the
/// stream, which would end the server.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    stream::unfold((listener, free), |(listener, free)| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match free.clone().try_acquire_owned() {
                    Ok(place) => return Some((Ok(Connection::new(stream, place)), (listener, free))),
                    // Dropping the stream closes it.
                    Err(_) => debug!("{:?} has {CONNECTIONS} clients already", listener.local_addr()),
                },
                Err(error) => {
                    warn!(%error, "cannot accept a connection on {:?}", listener.local_addr());
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}
