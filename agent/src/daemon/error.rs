//! Why the agent cannot start or must end.

use std::io;
use std::path::PathBuf;

use nodewarden_api::grpc::GrpcError;
use nodewarden_api::http::BindError;
use nodewarden_hierarchy::HierarchyError;
use nodewarden_kube::KubeError;
use nodewarden_kube::serving::ServingError;
use nodewarden_observer::ObservationError;
use nodewarden_pods::registry::ProvidersError;
use nodewarden_resource_managers::ManagerError;
use nodewarden_storage::journal::JournalError;
use nodewarden_tasks::parts::Ended;
use nodewarden_throttle::ThrottleError;

/// Why the agent cannot start or must end.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("the agent needs root (effective uid is {uid})")]
    NotRoot { uid: u32 },
    #[error("cannot make the state directory {path}: {source}")]
    StateDir { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Observation(#[from] ObservationError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("mode manage: {0}")]
    Manage(#[from] HierarchyError),
    #[error(transparent)]
    Throttle(#[from] ThrottleError),
    #[error("mode augment: {0}")]
    Augment(#[from] nodewarden_augment::LedgerError),
    #[error("records of pods: {0}")]
    Records(nodewarden_lifecycle::StoreError),
    #[error(transparent)]
    ResourceManagers(#[from] ManagerError),
    #[error(transparent)]
    Kubernetes(#[from] KubeError),
    #[error(transparent)]
    Serving(#[from] ServingError),
    #[error(transparent)]
    CredentialProviders(#[from] ProvidersError),
    #[error("gRPC: {0}")]
    Grpc(#[from] GrpcError),
    #[error("HTTP: {0}")]
    Bind(#[from] BindError),
    /// A part that must run as long as the agent.
    #[error("{0}: the agent ends, to be started again whole")]
    Part(Ended),
    /// A server whose task is no part of the registry.
    #[error("the {server} server {how}: the agent ends, to be started again whole")]
    Server { server: &'static str, how: String },
    #[error("the node's server: {0}")]
    Tls(#[from] nodewarden_server::tls::TlsError),
    #[error("the node's server: {0}")]
    SelfSigned(#[from] nodewarden_server::tls::SelfSignedError),
    #[error("cannot start the {what}: {source}")]
    Start { what: &'static str, source: io::Error },
}
