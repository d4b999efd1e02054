//! Devices in the daemon: the device manager with the journal behind it, and the socket of PodResources.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tracing::warn;

use super::observer::Observer;
use nodewarden_config::Config;
use nodewarden_devices::pod_resources;
use nodewarden_devices::pod_resources::{AllocatableDevices, PodDevices, PodResources};
use nodewarden_devices::{Devices, Note, Serving, Tell};
use nodewarden_machine::unix_socket::Socket;
use nodewarden_model::{Detail, PodRef};
use nodewarden_pods::status::Board;
use nodewarden_storage::journal::Journal;

/// Ends the servers when it is dropped.
pub struct DeviceServers {
    _serving: Serving,
    _stop: oneshot::Sender<()>,
}

/// What the lifecycle takes over.
pub struct Started {
    pub devices: Devices,
    /// Pods by uid whose devices have turned healthy or unhealthy.
    pub health: mpsc::UnboundedReceiver<String>,
    pub servers: DeviceServers,
}

/// Starts the device manager and what it shows on the node.
pub fn start(
    config: &Config,
    observer: &Arc<Observer>,
    journal: &Journal,
    runtime: &tokio::runtime::Handle,
) -> Started {
    let (news, health) = mpsc::unbounded_channel();
    let tell = teller(journal.clone(), observer.board.clone(), news);
    let (devices, serving) = runtime.block_on(Devices::start(&config.devices, tell));
    let (shown, board) = (devices.clone(), observer.board.clone());
    observer.show_devices(move || shown.view(&board.pods()));
    let (stop, stopped) = oneshot::channel();
    let source = Arc::new(Shown { devices: devices.clone(), board: observer.board.clone() });
    match Socket::claim(&config.devices.pod_resources_socket()) {
        Ok(socket) => {
            runtime.spawn(async move {
                let shutdown = async {
                    // Dropped at the end.
                    let _ = stopped.await;
                };
                if let Err(error) = pod_resources::serve(socket, source, shutdown).await {
                    warn!("{error}: PodResources are no longer served");
                }
            });
        }
        Err(error) => warn!("{error}: PodResources are not served"),
    }
    Started { devices, health, servers: DeviceServers { _serving: serving, _stop: stop } }
}

/// Writes notes into the journal; those of a container's device are also handed on.
fn teller(journal: Journal, board: Board, news: mpsc::UnboundedSender<String>) -> Tell {
    Arc::new(move |note| match note {
        Note::Plugin { reason, message } => {
            tracing::info!("{reason}: {message}");
            let detail = Detail::Agent { reason: reason.to_owned(), message };
            journal.append(Timestamp::now(), "", None, detail);
        }
        Note::Container { uid, container, reason, message } => {
            let view = board.pods().into_iter().find(|view| view.pod.uid == uid);
            let id = view.as_ref().and_then(|view| view.containers.iter().find(|own| own.name == container));
            let pod = PodRef {
                namespace: view.as_ref().map(|view| view.pod.namespace.clone()).unwrap_or_default(),
                name: view.as_ref().map(|view| view.pod.name.clone()).unwrap_or_default(),
                container_id: id.map(|own| own.id.clone()).unwrap_or_default(),
                container_name: container,
                uid: uid.clone(),
            };
            tracing::info!(pod = %format_args!("{}/{}", pod.namespace, pod.name), "{reason}: {message}");
            let detail = Detail::Pod { reason: reason.to_owned(), message };
            journal.append(Timestamp::now(), "", Some(pod), detail);
            // Nobody listens when the agent ends.
            let _ = news.send(uid);
        }
    })
}

/// What PodResources tells: pods of this agent with what they have.
struct Shown {
    devices: Devices,
    board: Board,
}

impl PodResources for Shown {
    fn pods(&self) -> Vec<PodDevices> {
        self.devices.pod_devices(&self.board.pods())
    }

    fn allocatable(&self) -> Vec<AllocatableDevices> {
        self.devices.allocatable()
    }
}
