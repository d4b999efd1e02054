//! Accepting connections for as long as a server lives.

use std::io;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::net::{UnixListener, UnixStream};
use tracing::warn;

/// Before the next attempt when a connection could not be accepted: there are no descriptors, or no memory.
const PAUSE: Duration = Duration::from_secs(1);

/// Every connection that comes in. A failed one does not end it, which would end the server.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => return Some((Ok(connection), listener)),
                Err(error) => {
                    warn!(%error, "cannot accept a connection on {:?}", listener.local_addr());
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}
