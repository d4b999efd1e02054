//! Accepting connections of other programs, for as long as a server lives.
//!
//! Programs on Unix sockets name the authority of their requests in ways that are none in a URI: grpc-go with a dialer of
//! its own (most device plugins) the socket's path, grpc-core (Python, C++) since 1.58 its percent-encoding, others
//! nothing. The HTTP/2 library refuses such requests as malformed, before any of its users sees them. So what comes in
//! goes through [`authority::Frames`], which puts a plain name there; nobody reads it.

mod authority;
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

/// Before the next attempt when a connection could not be accepted: there are no descriptors, or no memory.
const PAUSE: Duration = Duration::from_secs(1);

/// Every connection that comes in. A failed one does not end it, which would end the server.
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
