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
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::net::UnixListener;
use tracing::warn;

use connection::Connection;

/// Wait before the next attempt after a connection could not be accepted, for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_secs(1);

/// A stream of all incoming connections. A failed one does not end the stream, which would end the server.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => return Some((Ok(Connection::new(connection)), listener)),
                Err(error) => {
                    warn!(%error, "cannot accept a connection on {:?}", listener.local_addr());
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}
