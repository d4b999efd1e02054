//! What every part of the agent is started with.

use std::sync::Arc;

use tokio::runtime::Handle;

use nodewarden_config::{Config, Endpoint};
use nodewarden_cri::SharedList;
use nodewarden_kube::events::Events;
use nodewarden_kube::{Connection, KnownPods};
use nodewarden_observer::Observer;
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;

/// Exists before the parts of a mode are started and outlives them.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub config: &'a Config,
    /// The tokio runtime of the server threads, inside which the parts are started.
    pub runtime: &'a Handle,
    /// The tokio runtime of the HTTP servers.
    pub http: &'a Handle,
    pub journal: &'a Journal,
    pub observer: &'a Arc<Observer>,
    /// Status of the managed pods; stays empty in mode observe.
    pub pods: &'a PodStatusCache,
    /// The API server; `None` in mode observe and without credentials.
    pub kubernetes: Option<&'a Connection>,
    /// The node's pods at the API server.
    pub known_pods: &'a KnownPods,
    /// Where what happens to the node is reported for the API server.
    pub events: &'a Events,
}

impl Context<'_> {
    /// The lists of the runtime at `endpoint` that the names of pods and other parts have in common. Must be
    /// called inside a tokio runtime.
    pub fn shared_list(&self, endpoint: &Endpoint) -> SharedList {
        let of_names = self.observer.names.shared_list().cloned();
        of_names.unwrap_or_else(|| SharedList::new(endpoint, self.config.pods.runtime_request_timeout))
    }
}
