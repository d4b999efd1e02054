//! gRPC's health service (grpc.health.v1), implemented by tonic.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::health_reporter;

use super::Notes;

/// A service whose status is SERVING, in addition to the server as a whole.
pub const GOOD: &str = "good";
/// A service whose status is NOT_SERVING.
pub const BAD: &str = "bad";

/// Serves every connection. If the server ends, that is written to the notes.
pub async fn serve(listener: TcpListener, notes: Arc<Notes>) {
    let (reporter, service) = health_reporter();
    reporter.set_service_status(GOOD, ServingStatus::Serving).await;
    reporter.set_service_status(BAD, ServingStatus::NotServing).await;
    let noted = notes.clone();
    let connections = TcpListenerStream::new(listener).map(move |connection| {
        noted.add("grpc", "-", "accepted");
        connection
    });
    if let Err(error) = Server::builder().add_service(service).serve_with_incoming(connections).await {
        eprintln!("serve: gRPC: {error}");
        notes.add("grpc", "-", "ended");
    }
}
