//! Why something could not be done with the API server.

use std::path::PathBuf;

/// An error of the connection to the API server.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The kubeconfig cannot be read, or is not one.
    #[error("kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// The agent does not run in a pod of the cluster.
    #[error("credentials of the pod: {0}")]
    InCluster(kube::config::InClusterError),
    /// A command finds no credentials.
    #[error("credentials for the API server: {0}")]
    Infer(kube::config::InferConfigError),
    /// Reading the credentials panicked.
    #[error("reading the credentials: internal error, see the log")]
    Panicked,
    /// No client can be made with these credentials.
    #[error("cannot make a client of the API server: {0}")]
    Client(Box<kube::Error>),
}
