//! Connects to the agent's socket, for clients in this repository.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// Connects to the agent that serves on `socket`. The connection is renewed when the agent restarts.
///
/// # Errors
/// The first connection fails.
pub async fn channel(socket: &Path) -> Result<Channel, Error> {
    let path: PathBuf = socket.to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The address is not used: the connector opens the socket.
    Endpoint::from_static("http://nodewarden").connect_with_connector(connector).await
}
