//! The credentials of this node.

use nodewarden_config::KubernetesSettings;
use tokio::sync::watch;

use crate::connection::client_of;
use crate::{Connection, KubeError};

/// The connection of the node of this name.
///
/// # Errors
/// The credentials cannot be read.
pub async fn connect(settings: &KubernetesSettings, node: &str) -> Result<Connection, KubeError> {
    let client = match &settings.kubeconfig {
        Some(path) => client_of(path).await?,
        None => {
            let config = kube::Config::incluster().map_err(KubeError::InCluster)?;
            kube::Client::try_from(config).map_err(|error| KubeError::Client(Box::new(error)))?
        }
    };
    let (_, clients) = watch::channel(client);
    Ok(Connection::new(clients, node))
}
