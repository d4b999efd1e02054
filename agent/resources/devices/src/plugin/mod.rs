//! Device plugins: their registration, their lists of devices, and the calls to them (deviceplugin v1beta1).
//!
//! - [`PluginServer`]: the servers. Plugins register at `device-plugins/kubelet.sock`, or are found by their
//!   sockets in `plugins_registry` (`watcher`).
//! - [`PluginEvent`]: what plugins send, in order, on one channel.
//! - [`Plugin`]: one registration, with the calls to it. It ends when its list of devices ends, or when
//!   another registration of its resource replaces it.
//!
//! Every plugin has its own tasks, so that one that does not answer delays no other. `request` and `listing`,
//! which are pure, decide what is accepted; `registry` knows which registration of a resource is the current
//! one.

pub(super) mod accept;
mod connection;
mod directory;
mod error;
mod events;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handle;
mod listing;
mod registry;
mod request;
mod service;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::deviceplugin::v1beta1::registration_server::RegistrationServer;
use tokio::task::JoinHandle;
use tracing::{info, warn};

pub use error::{PluginAddress, PluginError};
pub use events::{EventSender, PluginEvents, channel};
pub use handle::Plugin;
pub use request::InvalidRegistration;

use nodewarden_config::DeviceSettings;
use nodewarden_machine::unix_socket::{Claim, Socket};
use nodewarden_tasks::parts;

use crate::Device;
use registry::Registry;
use service::Service;

/// Name of the socket at which plugins register.
const KUBELET_SOCKET: &str = "kubelet.sock";
/// How long the task may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// Largest message in bytes, in both directions: 16 MiB, as in the kubelet's clients and servers of plugins.
pub(super) const LARGEST_MESSAGE: usize = 16 << 20;

/// Largest list of devices in bytes. (The kubelet takes 16 MiB, which decoded can be a gigabyte.)
const LARGEST_LIST: usize = 4 << 20;
/// Largest number of devices of one resource.
const MOST_DEVICES: usize = 65_536;
/// Largest number of resources that plugins register.
const MOST_RESOURCES: usize = 256;

/// Which optional calls a plugin asks for.
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

/// What plugins send. Once a registration has come, no event of an older registration of the same resource
/// follows.
#[derive(Debug, Clone)]
pub enum PluginEvent {
    /// A plugin is connected, its options are known, and its list of devices was requested. It replaces an
    /// earlier registration of the same resource, for which no [`Self::Stopped`] is sent.
    Registered(Plugin),
    /// The complete list of its devices, each once, sent when it has changed. `problems` describes errors in
    /// the list.
    Devices { resource: String, generation: u64, devices: Vec<Device>, problems: Vec<String> },
    /// The registration has ended; the plugin may register again, with another generation.
    Stopped { resource: String, generation: u64, reason: String },
    /// A registration was refused.
    Refused { what: String, reason: String },
}

/// The servers for plugins. Dropping it ends them and all registrations, and removes the socket.
#[derive(Debug)]
pub struct PluginServer {
    registry: Arc<Registry>,
    tasks: Vec<JoinHandle<()>>,
    _socket: Socket,
}

impl PluginServer {
    /// Removes stale sockets (only sockets) from the directory of plugins, serves registrations there, and
    /// watches the other directory for plugins. Plugins of an earlier agent notice that their sockets are
    /// removed, and register again. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A kubelet or another agent serves there already, or the directories or the socket cannot be created.
    pub async fn start(settings: &DeviceSettings, events: EventSender) -> Result<Self, PluginError> {
        let dir = settings.plugin_dir();
        directory::make(&dir)?;
        directory::make(&settings.registry_dir())?;
        let path = dir.join(KUBELET_SOCKET);
        // First claim the directory, and create the new socket after the old ones are removed: a plugin
        // answers it with a socket of its own.
        let claim = Claim::take(&path)?;
        let removed = directory::sweep(&dir)?;
        if !removed.is_empty() {
            info!(sockets = removed.len(), "removed the sockets of device plugins: they register again");
        }
        // Plugins wait for a file that is created, not for one that is renamed.
        let mut socket = claim.bind_in_place()?;
        let listener = socket.listen()?;
        let registry = Arc::new(Registry::new(settings.plugin_timeout, settings.grace, events));
        let service = RegistrationServer::new(Service::new(registry.clone(), dir))
            .max_decoding_message_size(LARGEST_MESSAGE);
        let closed = registry.clone();
        let server = accept::server().add_service(service).serve_with_incoming_shutdown(
            accept::connections(listener),
            async move {
                closed.closed().await;
            },
        );
        let server = async move {
            server.await.map_err(|error| {
                warn!(%error, "the registration server of device plugins failed");
                parts::Failed
            })
        };
        let server = tokio::spawn(parts::register("device plugin registration", LIMIT).fallible_task(server));
        let watcher = tokio::spawn(
            parts::register("device plugins", LIMIT).task(watcher::watch(settings.clone(), registry.clone())),
        );
        info!("device plugins register at {}", path.display());
        Ok(Self { registry, tasks: vec![server, watcher], _socket: socket })
    }
}

impl Drop for PluginServer {
    fn drop(&mut self) {
        self.registry.close();
        for task in &self.tasks {
            task.abort();
        }
    }
}
