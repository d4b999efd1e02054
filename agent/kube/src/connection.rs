//! The client of the API server with the credentials that are valid now.

use std::sync::Arc;

use tokio::sync::watch;

/// Gives the newest client. Credentials are renewed while the agent runs, so a client is asked for whenever a
/// request is made or a watch begins, and never kept. Cloning shares it.
#[derive(Clone)]
pub struct Connection {
    clients: watch::Receiver<kube::Client>,
    node: Arc<str>,
    claimed: Arc<watch::Sender<bool>>,
    identified: watch::Receiver<bool>,
}

impl Connection {
    /// A connection of the node of this name that follows `clients`.
    pub fn new(clients: watch::Receiver<kube::Client>, node: &str) -> Self {
        let (_, identified) = watch::channel(true);
        Self::with_claim(clients, node, watch::Sender::default(), identified)
    }

    /// As [`Self::new`]; the clients hold requests back until `claimed` is true. `identified`: the newest
    /// client has the node's own credentials.
    pub(crate) fn with_claim(
        clients: watch::Receiver<kube::Client>,
        node: &str,
        claimed: watch::Sender<bool>,
        identified: watch::Receiver<bool>,
    ) -> Self {
        Self { clients, node: node.into(), claimed: claimed.into(), identified }
    }

    /// Whether it is certain that the node's name is this agent's ([`crate::gate`]).
    pub(crate) fn claimed(&self) -> &watch::Sender<bool> {
        &self.claimed
    }

    /// Sends requests from now on though this agent does not keep the node object: a kubelet does, and this
    /// agent is only beside it.
    pub fn beside_a_kubelet(&self) {
        self.claimed.send_replace(true);
    }

    /// Waits until the credentials are the node's own: those of a bootstrap kubeconfig are only for
    /// requesting some.
    pub(crate) async fn identified(&self) {
        // Without renewal they stay as they are.
        let mut identified = self.identified.clone();
        let _ended = identified.wait_for(|identified| *identified).await.is_err();
    }

    /// The client with the newest credentials.
    pub fn client(&self) -> kube::Client {
        self.clients.borrow().clone()
    }

    /// The name of this agent's node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Waits until there is a client that [`Self::client`] of this handle has not given since the last call:
    /// a watch of the former one should begin again, since its credentials may be refused soon. Never returns
    /// without renewal.
    pub async fn renewed(&mut self) {
        if self.clients.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("node", &self.node).finish_non_exhaustive()
    }
}
