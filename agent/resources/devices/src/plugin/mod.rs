//! Device plugins: where they register, what they say of their devices, and the calls to them (deviceplugin v1beta1).
//!
//! - [`Plugins`]: the servers. Plugins register at `device-plugins/kubelet.sock`, or are found by their sockets in
//!   `plugins_registry` (`watcher`).
//! - [`PluginEvent`]: what they say, in order, on one channel.
//! - [`Plugin`]: one registration; the calls to it. It lives until its list of devices ends, or until another
//!   registration of its resource takes its place.
//!
//! Every plugin has tasks of its own, so that one that does not answer delays no other. What is accepted is decided in
//! `request` and `listing`, which are pure; `registry` knows which registration of a resource counts.

pub(super) mod accept;
mod connection;
mod directory;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod handle;
mod listing;
mod registry;
mod request;
mod service;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::Arc;

use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::deviceplugin::v1beta1::registration_server::RegistrationServer;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tracing::{info, warn};

pub use error::{PluginError, Whom};
pub use handle::Plugin;
pub use request::Invalid;

use crate::Device;
use nodewarden_config::DeviceSettings;
use nodewarden_machine::unix_socket::{Claim, Socket};
use registry::Registry;
use service::Service;

/// Name of the socket at which plugins register.
const KUBELET_SOCKET: &str = "kubelet.sock";
/// Largest message in bytes, of either side: 16 MiB, as the kubelet's clients and servers of its plugins' interfaces.
pub(super) const LARGEST_MESSAGE: usize = 16 << 20;

/// Which calls a plugin wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// PreStartContainer, before each start of a container.
    pub pre_start_required: bool,
    /// GetPreferredAllocation, before devices are chosen.
    pub preferred_allocation: bool,
}

impl From<api::DevicePluginOptions> for Options {
    fn from(options: api::DevicePluginOptions) -> Self {
        Self {
            pre_start_required: options.pre_start_required,
            preferred_allocation: options.get_preferred_allocation_available,
        }
    }
}

/// What plugins say. Of a resource, nothing comes from a registration after another one of it has come.
#[derive(Debug, Clone)]
pub enum PluginEvent {
    /// Connected, its options are known, and its list of devices is asked for. Takes the place of an earlier one of the
    /// same resource, for which no [`Self::Stopped`] comes.
    Registered(Plugin),
    /// All its devices, each once; when they are others than before. `problems` are the list's lies.
    Devices { resource: String, generation: u64, devices: Vec<Device>, problems: Vec<String> },
    /// It is gone, and may come back with another generation.
    Stopped { resource: String, generation: u64, reason: String },
    /// A registration that was turned down.
    Refused { what: String, reason: String },
}

/// The servers. Dropping it ends them and all registrations, and removes the socket.
#[derive(Debug)]
pub struct Plugins {
    registry: Arc<Registry>,
    tasks: Vec<JoinHandle<()>>,
    _socket: Socket,
}

impl Plugins {
    /// Removes stale sockets (only sockets) where plugins have theirs, serves registrations there, and watches for
    /// plugins in the other directory. Plugins that lived before see their sockets vanish and register again. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// A kubelet or another agent serves there already, or the directories or the socket cannot be made.
    pub async fn start(
        settings: &DeviceSettings,
        events: mpsc::UnboundedSender<PluginEvent>,
    ) -> Result<Self, PluginError> {
        let dir = settings.plugin_dir();
        directory::make(&dir)?;
        directory::make(&settings.registry_dir())?;
        let path = dir.join(KUBELET_SOCKET);
        // First whether the directory is anybody's, and the new socket after the old ones are gone: a plugin answers it
        // with a socket of its own.
        let claim = Claim::take(&path)?;
        let removed = directory::sweep(&dir)?;
        if !removed.is_empty() {
            info!(sockets = removed.len(), "removed the sockets of device plugins: they register again");
        }
        // Plugins wait for a file that is made, not moved.
        let mut socket = claim.bind_in_place()?;
        let listener = socket.listen()?;
        let registry = Arc::new(Registry::new(settings.plugin_timeout, events));
        let service = RegistrationServer::new(Service::new(registry.clone(), dir))
            .max_decoding_message_size(LARGEST_MESSAGE);
        let closed = registry.clone();
        let server = Server::builder().add_service(service).serve_with_incoming_shutdown(
            accept::connections(listener),
            async move {
                closed.closed().await;
            },
        );
        let server = tokio::spawn(async move {
            if let Err(error) = server.await {
                warn!(%error, "the registration server of device plugins failed");
            }
        });
        let watcher = tokio::spawn(watcher::watch(settings.clone(), registry.clone()));
        info!("device plugins register at {}", path.display());
        Ok(Self { registry, tasks: vec![server, watcher], _socket: socket })
    }
}

impl Drop for Plugins {
    fn drop(&mut self) {
        self.registry.close();
        for task in &self.tasks {
            task.abort();
        }
    }
}
