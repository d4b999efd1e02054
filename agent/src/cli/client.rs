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

/// A node with all its 65,535 cgroups answers with some 30 MiB.
const LARGEST_ANSWER: usize = 128 << 20;

/// A client of the agent's main service.
pub async fn connect(socket: &Path) -> Result<NodewardenClient<Channel>, CliError> {
    Ok(service(channel(socket).await?))
}

/// The agent's main service on a connection.
pub fn service(channel: Channel) -> NodewardenClient<Channel> {
    NodewardenClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// The service of pods on a connection.
pub fn pods(channel: Channel) -> PodsClient<Channel> {
    PodsClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// The service of images and their collection on a connection.
pub fn garbage(channel: Channel) -> GarbageClient<Channel> {
    GarbageClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// The service of pressure and decisions on a connection.
pub fn pressure(channel: Channel) -> PressureClient<Channel> {
    PressureClient::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// What a failed call or a stream that ended too early is reported as: the agent's own words, if it said any.
pub fn refused(socket: PathBuf) -> impl Fn(tonic::Status) -> CliError {
    move |status| {
        // The connection's own failure: nobody said anything.
        if std::error::Error::source(&status).is_some() {
            return CliError::Stopped { socket: socket.clone() };
        }
        CliError::Refused(Box::new(status))
    }
}

/// Connects, and tells apart why it cannot be done. The connection renews itself when the agent is restarted.
pub async fn channel(socket: &Path) -> Result<Channel, CliError> {
    // Asked apart: the transport wraps the reason beyond recognition.
    UnixStream::connect(socket).await.map_err(|e| CliError::connecting(socket, e))?;
    nodewarden_api::grpc::client::channel(socket)
        .await
        .map_err(|source| CliError::Transport { socket: socket.to_owned(), source })
}

/// Runs a subcommand that asks the agent.
pub fn block_on(command: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::Runtime { source })?
        .block_on(command)
}
