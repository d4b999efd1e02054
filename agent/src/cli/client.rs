//! The connection to the agent.

use std::future::Future;
use std::path::{Path, PathBuf};

use nodewarden_proto::nodewarden::v1::garbage_client::GarbageClient;
use nodewarden_proto::nodewarden::v1::nodewarden_client::NodewardenClient;
use nodewarden_proto::nodewarden::v1::pods_client::PodsClient;
use nodewarden_proto::nodewarden::v1::pressure_client::PressureClient;
use tokio::net::UnixStream;
use tonic::transport::Channel;

use super::CliError;

/// Largest response accepted, in bytes. A node with the maximum of 65,535 cgroups answers with about 30 MiB.
const LARGEST_ANSWER: usize = 128 << 20;

/// Connects to the agent and returns a client of its main service.
pub async fn connect(socket: &Path) -> Result<NodewardenClient<Channel>, CliError> {
    Ok(service(channel(socket).await?))
}

/// A client of the agent's main service on an open connection.
pub fn service(channel: Channel) -> NodewardenClient<Channel> {
    NodewardenClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// A client of the pods service on an open connection.
pub fn pods(channel: Channel) -> PodsClient<Channel> {
    PodsClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// A client of the image and garbage collection service on an open connection.
pub fn garbage(channel: Channel) -> GarbageClient<Channel> {
    GarbageClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// A client of the node pressure and eviction decision service on an open connection.
pub fn pressure(channel: Channel) -> PressureClient<Channel> {
    PressureClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// Turns the status of a failed call, or of a stream that ended early, into an error. It carries the agent's
/// own message, if there is one.
pub fn refused(socket: PathBuf) -> impl Fn(tonic::Status) -> CliError {
    move |status| {
        // The connection itself failed, so there is no message of the agent.
        if std::error::Error::source(&status).is_some() {
            return CliError::Stopped { socket: socket.clone() };
        }
        CliError::Refused(Box::new(status))
    }
}

/// Connects to the socket; the error says why that is impossible. The connection is renewed when the agent
/// restarts.
pub async fn channel(socket: &Path) -> Result<Channel, CliError> {
    // Tried separately first, because the transport hides the I/O error behind its own.
    UnixStream::connect(socket).await.map_err(|e| CliError::connecting(socket, e))?;
    nodewarden_api::grpc::client::channel(socket)
        .await
        .map_err(|source| CliError::Transport { socket: socket.to_owned(), source })
}

/// Runs an asynchronous subcommand (one that talks to the agent) to its end.
pub fn block_on(command: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::Runtime { source })?
        .block_on(command)
}
