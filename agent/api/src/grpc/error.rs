//! Errors of the gRPC server.

use nodewarden_machine::unix_socket::SocketError;

/// Why the gRPC server ended or could not start.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    /// The socket is in use or cannot be created.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The server ended with an error.
    #[error("the gRPC server failed: {source}")]
    Serve {
        /// What failed.
        source: tonic::transport::Error,
    },
}
