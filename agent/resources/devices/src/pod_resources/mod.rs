//! PodResources v1 and v1alpha1: which pod has which devices, exclusive CPUs and memory, on the kubelet's
//! socket and in its messages, for monitoring agents and CNI plugins (DCGM exporter, Multus).
//!
//! Dynamic resource claims are not allocated by this agent: that list is empty.

mod convert;
mod service;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_machine::unix_socket::{Socket, SocketError};
use nodewarden_model::DevicesPerNuma;
use nodewarden_proto::podresources::v1::pod_resources_lister_server::PodResourcesListerServer;
use nodewarden_proto::podresources::v1alpha1::pod_resources_lister_server::PodResourcesListerServer as AlphaServer;
use tokio::sync::watch;

use crate::plugin::LARGEST_MESSAGE;
use crate::plugin::accept::{connections, server};
use service::Service;

/// How long a shutdown waits for clients to disconnect.
const GRACE: Duration = Duration::from_secs(2);

/// The source of the answers.
pub trait PodResources: Send + Sync {
    /// Pods that exist and have not ended (the kubelet's active pods), with their sidecars and regular
    /// containers; including pods and containers without devices.
    fn pods(&self) -> Vec<PodDevices>;
    /// Healthy devices, allocated or not.
    fn allocatable(&self) -> Vec<AllocatableDevices>;
    /// CPUs that containers can have for themselves, in order; none without the static policy.
    fn allocatable_cpus(&self) -> Vec<u32>;
    /// Memory that containers can have from NUMA nodes; none without the static policy.
    fn allocatable_memory(&self) -> Vec<MemoryBlock>;
}

/// A pod with its containers' devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDevices {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// Its sidecars and regular containers.
    pub containers: Vec<ContainerDevices>,
}

/// A container with its devices by resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerDevices {
    /// The container's name.
    pub name: String,
    /// Device ids by resource and NUMA node.
    pub devices: BTreeMap<String, DevicesPerNuma>,
    /// The CPUs that it has for itself, in order.
    pub cpus: Vec<u32>,
    /// Its memory, where that comes from chosen NUMA nodes.
    pub memory: Vec<MemoryBlock>,
}

/// Memory of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryBlock {
    /// `memory` or `hugepages-2Mi`.
    pub resource: String,
    /// Bytes.
    pub size: u64,
    /// The NUMA nodes that it comes from.
    pub nodes: Vec<u32>,
}

/// The healthy devices of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocatableDevices {
    /// The extended resource.
    pub resource: String,
    /// Device ids by NUMA node.
    pub devices: DevicesPerNuma,
}

/// Why PodResources is not served.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    #[error(transparent)]
    /// The socket cannot be used.
    Socket(#[from] SocketError),
    #[error("the gRPC server failed: {source}")]
    /// The server ended with an error.
    Serve {
        /// The error of the gRPC library.
        source: tonic::transport::Error,
    },
}

/// Serves on the socket until `shutdown` completes, then removes the socket.
///
/// # Errors
/// The server ends with an error.
pub async fn serve(
    mut socket: Socket,
    source: Arc<dyn PodResources>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), PodResourcesError> {
    let incoming = connections(socket.listen()?);
    let alpha = AlphaServer::new(Service::new(source.clone()));
    let service = PodResourcesListerServer::new(Service::new(source));
    let (stop, mut stopping) = watch::channel(false);
    let server = server()
        .add_service(service.max_encoding_message_size(LARGEST_MESSAGE))
        .add_service(alpha.max_encoding_message_size(LARGEST_MESSAGE))
        .serve_with_incoming_shutdown(incoming, async move {
            // An error would mean that the sender was dropped: stop as well.
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
