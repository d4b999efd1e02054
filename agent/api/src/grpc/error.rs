//! Errors of the gRPC server.

use nodewarden_machine::unix_socket::SocketError;

#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("the gRPC server failed: {source}")]
    Serve { source: tonic::transport::Error },
}
