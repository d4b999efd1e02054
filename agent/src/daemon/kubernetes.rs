//! The node in a cluster: the connection to the API server, and what is told to it about the node.

use tokio::runtime::Handle;
use tracing::info;

use super::error::DaemonError;
use nodewarden_config::{Config, Mode};
use nodewarden_hierarchy::node_name;
use nodewarden_kube::{Connection, credentials};

/// The connection to the API server; `None` in mode observe and without credentials. The API server need not be reachable.
///
/// # Errors
/// The credentials cannot be read.
pub fn connect(config: &Config, runtime: &Handle) -> Result<Option<Connection>, DaemonError> {
    if config.mode != Mode::Manage || !config.kubernetes.connects() {
        return Ok(None);
    }
    let node = node_name(config).to_lowercase();
    let connection = runtime.block_on(credentials::connect(&config.kubernetes, &node))?;
    info!(node, "the pods of the API server are run too");
    Ok(Some(connection))
}
