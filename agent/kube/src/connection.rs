//! The client of the API server with the credentials that are valid now.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;

use crate::KubeError;

/// Gives the newest client. Credentials are renewed while the agent runs, so a client is asked for whenever a
/// request is made or a watch begins, and never kept. Cloning shares it.
#[derive(Clone)]
pub struct Connection {
    clients: watch::Receiver<kube::Client>,
    node: std::sync::Arc<str>,
}

impl Connection {
    /// A connection of the node of this name that follows `clients`.
    pub fn new(clients: watch::Receiver<kube::Client>, node: &str) -> Self {
        Self { clients, node: node.into() }
    }

    /// The client with the newest credentials.
    pub fn client(&self) -> kube::Client {
        self.clients.borrow().clone()
    }

    /// The name of this agent's node.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A client with the credentials of a kubeconfig's current context.
///
/// # Errors
/// The file cannot be read, or its credentials make no client.
pub async fn client_of(kubeconfig: &Path) -> Result<kube::Client, KubeError> {
    let fail = |source| KubeError::Kubeconfig { path: kubeconfig.to_owned(), source: Box::new(source) };
    let file = Kubeconfig::read_from(kubeconfig).map_err(fail)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.map_err(fail)?).map_err(|error| KubeError::Client(Box::new(error)))
}
