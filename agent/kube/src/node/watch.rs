//! Follows the node object at the API server.

use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::runtime::watcher::watch_object;
use tokio::sync::watch::Sender;
use tokio::time::sleep;
use tracing::debug;

use crate::Connection;

/// The wait after a watch that failed.
const AGAIN: Duration = Duration::from_secs(2);

/// What is known of the node object.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Seen {
    /// Nothing yet.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It is this.
    Node(std::sync::Arc<Node>),
}

/// Writes into `to` what the node object is, without end. A watch that fails is begun again.
pub async fn follow(mut connection: Connection, to: &Sender<Seen>) {
    loop {
        connection.identified().await;
        let api = Api::<Node>::all(connection.client());
        let name = connection.node().to_owned();
        let mut changes = std::pin::pin!(watch_object(api, &name));
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                () = connection.renewed() => break,
            };
            match change {
                Some(Ok(Some(mut node))) => {
                    node.metadata.managed_fields = None;
                    to.send_replace(Seen::Node(node.into()));
                }
                Some(Ok(None)) => {
                    to.send_replace(Seen::Missing);
                }
                Some(Err(error)) => {
                    debug!("watching the node object: {error}");
                    sleep(AGAIN).await;
                }
                None => break,
            }
        }
    }
}
