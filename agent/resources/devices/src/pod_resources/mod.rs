//! PodResources v1: which pod has which devices, on the kubelet's socket and in its messages, for those who watch a node
//! (DCGM exporter, Multus).
//!
//! CPUs and memory that a container has for itself, and claims of dynamic resources, are not given out here: those lists
//! are empty, as the kubelet's are where its managers of CPU and memory have no static policy.

mod convert;
mod service;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_proto::podresources::v1::pod_resources_lister_server::PodResourcesListerServer;
use tokio::sync::watch;
use tonic::transport::Server;

use super::plugin::LARGEST_MESSAGE;
use super::plugin::accept::connections;
use nodewarden_machine::unix_socket::{Socket, SocketError};
use nodewarden_model::DevicesPerNuma;
use service::Service;

/// How long a stop waits for clients that do not let go.
const GRACE: Duration = Duration::from_secs(2);

/// Who has what.
pub trait PodResources: Send + Sync {
    /// The pods that are there and have not ended (the kubelet's active pods), also those without devices. Their
    /// sidecars and ordinary containers, also those without devices.
    fn pods(&self) -> Vec<PodDevices>;
    /// Healthy devices, whoever has them.
    fn allocatable(&self) -> Vec<AllocatableDevices>;
}

/// A pod and its containers' devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDevices {
    pub namespace: String,
    pub name: String,
    pub containers: Vec<ContainerDevices>,
}

/// A container and its devices by resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerDevices {
    pub name: String,
    pub devices: BTreeMap<String, DevicesPerNuma>,
}

/// Devices of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocatableDevices {
    pub resource: String,
    pub devices: DevicesPerNuma,
}

/// Why PodResources is not served.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("the gRPC server failed: {source}")]
    Serve { source: tonic::transport::Error },
}

/// Serves on the socket until `shutdown` is done, then removes it.
///
/// # Errors
/// The server fails.
pub async fn serve(
    mut socket: Socket,
    source: Arc<dyn PodResources>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), PodResourcesError> {
    let incoming = connections(socket.listen()?);
    let service = PodResourcesListerServer::new(Service::new(source));
    let (stop, mut stopping) = watch::channel(false);
    let server = Server::builder()
        .add_service(service.max_encoding_message_size(LARGEST_MESSAGE))
        .serve_with_incoming_shutdown(incoming, async move {
            // An error would mean that the sender is gone: stop as well.
            let _ = stopping.wait_for(|stop| *stop).await;
        });
    let mut server = std::pin::pin!(server);
    tokio::select! {
        result = &mut server => return result.map_err(|source| PodResourcesError::Serve { source }),
        () = shutdown => {}
    }
    socket.remove();
    let _ = stop.send(true);
    match tokio::time::timeout(GRACE, server).await {
        Ok(result) => result.map_err(|source| PodResourcesError::Serve { source }),
        Err(_) => Ok(()),
    }
}
