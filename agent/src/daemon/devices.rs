//! Devices: the device manager, whose events go into the journal, the PodResources socket, and enforcement.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tracing::warn;

use super::context::Context;
use nodewarden_config::Enforcement;
use nodewarden_devices::pod_resources::{self, AllocatableDevices, PodDevices, PodResources};
use nodewarden_devices::{DeviceEvent, DeviceTasks, Devices, Enforcer, EventSink, Guards};
use nodewarden_machine::unix_socket::Socket;
use nodewarden_model::{Detail, HookState, PodRef};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;

/// What runs for devices. The plugins' and the PodResources socket are closed when it is dropped.
pub struct NodeDevices {
    pub manager: Devices,
    /// `None` where no device is to be guarded.
    pub enforcer: Option<Enforcer>,
    _pod_resources: oneshot::Sender<()>,
    _plugins: DeviceTasks,
}

/// What [`start`] has started, and what pods need of it.
pub struct Started {
    pub devices: NodeDevices,
    /// Restricts pods to their devices; `None` where no device is to be guarded.
    pub guards: Option<Guards>,
    /// Uids of pods whose devices have turned healthy or unhealthy.
    pub health: mpsc::UnboundedReceiver<String>,
}

/// Starts the device manager, PodResources, and the enforcement for pods below the cgroup `kubepods`. What
/// cannot be started is reported in the log.
pub fn start(context: Context<'_>, kubepods: &str) -> Started {
    let Context { config, runtime, journal, pods, .. } = context;
    let (changed, health) = mpsc::unbounded_channel();
    let sink = record_events(journal.clone(), pods.clone(), changed);
    let (manager, plugins) = runtime.block_on(Devices::start(&config.devices, sink));
    let (stop, stopped) = oneshot::channel();
    serve_pod_resources(context, &manager, stopped);
    let enforcer = start_enforcer(context, kubepods);
    let guards = enforcer.clone().map(|enforcer| Guards::new(enforcer, &config.devices));
    let devices = NodeDevices { manager, enforcer, _pod_resources: stop, _plugins: plugins };
    Started { devices, guards, health }
}

/// Serves PodResources until the sender of `stopped` is dropped.
fn serve_pod_resources(context: Context<'_>, manager: &Devices, stopped: oneshot::Receiver<()>) {
    let source = Arc::new(PodDeviceList { devices: manager.clone(), pods: context.pods.clone() });
    match Socket::claim(&context.config.devices.pod_resources_socket()) {
        Ok(socket) => {
            context.runtime.spawn(async move {
                let shutdown = async {
                    // An error: nothing is ever sent.
                    let _ = stopped.await;
                };
                if let Err(error) = pod_resources::serve(socket, source, shutdown).await {
                    warn!("{error}: PodResources are no longer served");
                }
            });
        }
        Err(error) => warn!("{error}: PodResources are not served"),
    }
}

/// What restricts pods to their devices; `None` where nothing is to be enforced. If it does not work here,
/// the log and the journal say why.
fn start_enforcer(context: Context<'_>, kubepods: &str) -> Option<Enforcer> {
    let (settings, observer) = (&context.config.devices, context.observer);
    if [settings.enforcement, settings.privileged_enforcement] == [Enforcement::Off; 2] {
        return None;
    }
    let enforcer = Enforcer::start(observer.kernel.lock().as_mut(), &observer.facts.layout, kubepods);
    let topic = enforcer.state();
    if topic.state != HookState::On {
        let message = format!("{} is {}: {}", topic.topic.name(), topic.state.name(), topic.reason);
        warn!("{message}");
        let detail = Detail::Agent { reason: "FeatureOff".into(), message };
        context.journal.append(Timestamp::now(), "", None, detail);
    }
    Some(enforcer)
}

/// Writes the device manager's events into the journal. The uid of a pod that an event is about is sent to `changed`.
fn record_events(
    journal: Journal,
    pods: PodStatusCache,
    changed: mpsc::UnboundedSender<String>,
) -> EventSink {
    Arc::new(move |event| match event {
        DeviceEvent::Plugin { reason, message } => {
            tracing::info!("{reason}: {message}");
            let detail = Detail::Agent { reason: reason.to_owned(), message };
            journal.append(Timestamp::now(), "", None, detail);
        }
        DeviceEvent::Container { uid, container, reason, message } => {
            let view = pods.pods().into_iter().find(|view| view.pod.uid == uid);
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
            // An error: the agent ends.
            let _ = changed.send(uid);
        }
    })
}

/// What PodResources lists: the managed pods with their devices.
struct PodDeviceList {
    devices: Devices,
    pods: PodStatusCache,
}

impl PodResources for PodDeviceList {
    fn pods(&self) -> Vec<PodDevices> {
        self.devices.pod_devices(&self.pods.pods())
    }

    fn allocatable(&self) -> Vec<AllocatableDevices> {
        self.devices.allocatable()
    }
}
