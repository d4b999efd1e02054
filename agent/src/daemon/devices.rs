//! Devices: the device manager, whose events go into the journal, the PodResources socket, and enforcement.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tracing::warn;

use super::context::Context;
use nodewarden_config::Enforcement;
use nodewarden_devices::pod_resources::{self, AllocatableDevices, MemoryBlock, PodDevices, PodResources};
use nodewarden_devices::{DeviceEvent, DeviceTasks, Devices, Enforcer, EventSink, Guards};
use nodewarden_machine::unix_socket::Socket;
use nodewarden_model::{Detail, HookState};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_resource_managers::{Owner, ResourceManagers};
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts;

/// The server of PodResources as a part of the agent.
const POD_RESOURCES: &str = "PodResources";
/// How long it may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// What runs for devices. The plugins' and the PodResources socket are closed when it is dropped.
pub struct NodeDevices {
    pub manager: Devices,
    /// `None` where no device is to be guarded.
    pub enforcer: Option<Enforcer>,
    /// `None` before [`NodeDevices::serve_pod_resources`].
    pod_resources: Option<oneshot::Sender<()>>,
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

/// Starts the device manager, and the enforcement for pods below the cgroup `kubepods`. What cannot be
/// started is reported in the log.
pub fn start(context: Context<'_>, kubepods: &str) -> Started {
    let Context { config, runtime, journal, pods, .. } = context;
    let (changed, health) = mpsc::unbounded_channel();
    let sink = record_events(journal.clone(), pods.clone(), changed);
    let (manager, plugins) = runtime.block_on(Devices::start(&config.devices, sink));
    let enforcer = start_enforcer(context, kubepods);
    let guards = enforcer.clone().map(|enforcer| Guards::new(enforcer, &config.devices));
    let devices = NodeDevices { manager, enforcer, pod_resources: None, _plugins: plugins };
    Started { devices, guards, health }
}

impl NodeDevices {
    /// Serves PodResources as long as this lives.
    pub fn serve_pod_resources(&mut self, context: Context<'_>, managers: &ResourceManagers) {
        let (stop, stopped) = oneshot::channel();
        let source = PodResourceList {
            devices: self.manager.clone(),
            managers: managers.clone(),
            pods: context.pods.clone(),
        };
        serve(context, Arc::new(source), stopped);
        self.pod_resources = Some(stop);
    }
}

/// Serves PodResources until the sender of `stopped` is dropped.
fn serve(context: Context<'_>, source: Arc<PodResourceList>, stopped: oneshot::Receiver<()>) {
    match Socket::claim(&context.config.devices.pod_resources_socket()) {
        Ok(socket) => {
            let shutdown = async {
                // An error: nothing is ever sent.
                let _ = stopped.await;
            };
            context.runtime.spawn(part(pod_resources::serve(socket, source, shutdown)));
        }
        Err(error) => warn!("{error}: PodResources are not served"),
    }
}

/// The server as a part of the agent, which ends with it unless it was asked to end.
fn part<E: Display>(
    serving: impl Future<Output = Result<(), E>> + Send + 'static,
) -> impl Future<Output = ()> + Send {
    parts::register(POD_RESOURCES, LIMIT).fallible_task(async move {
        serving.await.map_err(|error| {
            warn!("{error}: PodResources are no longer served");
            parts::Failed
        })
    })
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

/// Writes the device manager's events into the journal. The uid of a pod that an event is about is sent to
/// `changed`.
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
            let pod = pods.container_ref(&uid, &container);
            tracing::info!(pod = %format_args!("{}/{}", pod.namespace, pod.name), "{reason}: {message}");
            let detail = Detail::Pod { reason: reason.to_owned(), message };
            journal.append(Timestamp::now(), "", Some(pod), detail);
            // An error: the agent ends.
            let _ = changed.send(uid);
        }
    })
}

/// What PodResources lists: the managed pods with their devices, CPUs and memory.
struct PodResourceList {
    devices: Devices,
    managers: ResourceManagers,
    pods: PodStatusCache,
}

impl PodResources for PodResourceList {
    fn pods(&self) -> Vec<PodDevices> {
        let mut pods = self.devices.pod_devices(&self.pods.pods());
        let map = self.managers.map();
        for pod in &mut pods {
            for container in &mut pod.containers {
                let owner = Owner { uid: pod.uid.clone(), container: container.name.clone() };
                container.cpus = map.owners.get(&owner).map(|cpus| cpus.iter().collect()).unwrap_or_default();
                container.memory = map.memory.get(&owner).cloned().unwrap_or_default();
            }
        }
        pods
    }

    fn allocatable_cpus(&self) -> Vec<u32> {
        self.managers.map().allocatable_cpus()
    }

    fn allocatable_memory(&self) -> Vec<MemoryBlock> {
        self.managers.map().allocatable_memory
    }

    fn allocatable(&self) -> Vec<AllocatableDevices> {
        self.devices.allocatable()
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_tasks::parts::Parts;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_server_of_pod_resources_is_noticed() {
        let problem = || Parts::of_process().health().into_iter().find(|one| one.part == POD_RESOURCES);
        part(async { Ok::<_, String>(()) }).await;
        assert_eq!(problem(), None, "it was asked to end");
        part(async { Err("no descriptors") }).await;
        assert_eq!(problem().unwrap().problem.as_deref(), Some("ended by itself"));
    }
}
