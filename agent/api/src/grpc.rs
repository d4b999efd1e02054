//! `nodewarden.v1` and `grpc.health.v1` on a Unix socket, for root only.

pub mod cgroup;
pub mod client;
mod connections;
mod cpu_map;
pub mod device;
mod error;
pub mod event;
mod exclusive_cpus;
mod filter;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod garbage;
mod peer;
pub mod pods;
pub mod pressure;
mod service;
pub mod status;
mod stream;
pub mod streams;
#[cfg(test)]
mod tests;
pub mod time;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_proto::nodewarden::v1::garbage_server::GarbageServer;
use nodewarden_proto::nodewarden::v1::nodewarden_server::NodewardenServer;
use nodewarden_proto::nodewarden::v1::pods_server::PodsServer;
use nodewarden_proto::nodewarden::v1::pressure_server::PressureServer;
use nodewarden_proto::nodewarden::v1::streams_server::StreamsServer;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;

use nodewarden_model::AgentState;
use nodewarden_storage::journal::Journal;

use nodewarden_machine::unix_socket::Socket;

pub use error::GrpcError;
use service::Service;

/// How long a shutdown waits for open streams (a health watch never ends by itself).
const GRACE: Duration = Duration::from_secs(2);
/// How often a connection is asked whether its client still answers; it has 20 s for that.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Binds the socket at `path` and serves on it until `shutdown` completes, then removes it.
///
/// # Errors
/// The socket is in use or cannot be created, or the server fails.
pub async fn serve(
    path: &Path,
    state: Arc<dyn AgentState>,
    journal: Journal,
    sources: streams::Sources,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), GrpcError> {
    serve_on(Socket::claim(path)?, state, journal, sources, shutdown).await
}

/// The same on a socket that was bound earlier, so that a second agent is refused before it does anything.
///
/// # Errors
/// The server fails.
pub async fn serve_on(
    mut socket: Socket,
    state: Arc<dyn AgentState>,
    journal: Journal,
    sources: streams::Sources,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), GrpcError> {
    let incoming = connections::bounded(UnixListenerStream::new(socket.listen()?), connections::CONNECTIONS);
    let (stop, stopping) = watch::channel(false);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<NodewardenServer<Service>>().await;
    let streams = StreamsServer::new(streams::Service::new(state.clone(), sources, stopping.clone()));
    let pods = PodsServer::new(pods::Service::new(state.clone()));
    let garbage = GarbageServer::new(garbage::Service::new(state.clone(), stopping.clone()));
    let pressure = PressureServer::new(pressure::Service::new(state.clone()));
    let service = NodewardenServer::new(Service::new(state, journal, stopping.clone()));
    let mut stopped = stopping.clone();
    let server = Server::builder()
        .max_concurrent_streams(connections::CALLS_PER_CONNECTION)
        .http2_max_header_list_size(connections::HEADER_BYTES)
        // A client that is stopped is found by that, and its connection closed.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .layer(InterceptorLayer::new(peer::check))
        .add_service(health_service)
        .add_service(service)
        .add_service(streams)
        .add_service(pods)
        .add_service(garbage)
        .add_service(pressure)
        .serve_with_incoming_shutdown(incoming, async move {
            // An error means that the sender was dropped: stop as well.
            let _ = stopped.wait_for(|stop| *stop).await;
        });
    let mut server = std::pin::pin!(server);
    tokio::select! {
        result = &mut server => return result.map_err(|source| GrpcError::Serve { source }),
        () = shutdown => {}
    }
    health.set_not_serving::<NodewardenServer<Service>>().await;
    // No new connections are accepted; streams end after their pending messages.
    socket.remove();
    let _ = stop.send(true);
    match tokio::time::timeout(GRACE, server).await {
        Ok(result) => result.map_err(|source| GrpcError::Serve { source }),
        Err(_) => Ok(()),
    }
}
