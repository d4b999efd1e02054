//! The device manager: plugins, allocations and the checkpoint behind one handle.

mod plugin_events;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use nodewarden_config::DeviceSettings;
use nodewarden_model::{DevicesPerNuma, Health};
use nodewarden_pods::spec::DeviceInjection;
use nodewarden_storage::write_behind::WriteBehind;
use nodewarden_tasks::parts;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::allocations::DeviceAllocations;
use crate::checkpoint::CheckpointFile;
use crate::injection::injection_of;
use crate::plugin::{self, Plugin, PluginServer};
use crate::{Allocation, DeviceHealth};
use plugin_events::Reported;

/// How long the task may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// An event about devices, for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceEvent {
    /// About a plugin or a resource of the node.
    Plugin {
        /// Reason of the event, in CamelCase.
        reason: &'static str,
        /// Text for people.
        message: String,
    },
    /// About a container that has the device.
    Container {
        /// Uid of the container's pod.
        uid: String,
        /// Name of the container.
        container: String,
        /// Reason of the event, in CamelCase.
        reason: &'static str,
        /// Text for people.
        message: String,
    },
}

/// Receives the events; called from the manager's tasks, and must not block.
pub type EventSink = Arc<dyn Fn(DeviceEvent) + Send + Sync>;

/// The handle of the device manager. Clones share one state.
#[derive(Clone)]
pub struct Devices(pub(super) Arc<Inner>);

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").finish_non_exhaustive()
    }
}

/// The shared state behind [`Devices`].
pub(super) struct Inner {
    pub(super) state: Mutex<State>,
    /// Writes the checkpoint of the state at the time of writing.
    pub(super) saver: WriteBehind<()>,
    events: EventSink,
    changed: watch::Sender<u64>,
}

/// What the lock protects. The lock is never held across an await.
pub(super) struct State {
    pub(super) allocations: DeviceAllocations,
    /// The newest registration of each connected resource.
    pub(super) plugins: BTreeMap<String, Plugin>,
    /// Resources whose plugins did not register again within the grace period, and when they were removed.
    pub(super) removed: BTreeMap<String, SystemTime>,
    /// Uids of pods in the checkpoint for which [`Devices::claim`] was not called yet.
    stale: BTreeSet<String>,
    /// Those of them that did not exist at the last call of [`Devices::free_stale`].
    suspects: BTreeSet<String>,
    /// The checkpoint was damaged, and the runtime has not been asked yet which containers have which
    /// devices.
    pub(super) recovering: bool,
    /// Why no plugin can register; `None` if they can.
    pub(super) closed: Option<String>,
    /// Problems of lists that were reported already, by resource.
    reported: BTreeMap<String, Reported>,
}

/// The servers for plugins and the task that handles their events. Dropping it ends them.
pub struct DeviceTasks {
    _plugins: Option<PluginServer>,
    events: tokio::task::JoinHandle<()>,
}

impl Drop for DeviceTasks {
    fn drop(&mut self) {
        self.events.abort();
    }
}

impl Devices {
    /// Loads the checkpoint that an earlier agent or a kubelet left, then lets plugins register. Must be
    /// called inside a tokio runtime.
    ///
    /// If sockets or directories cannot be created, the agent runs without plugins and reports the event
    /// `DevicePluginsOff`.
    pub async fn start(settings: &DeviceSettings, events: EventSink) -> (Self, DeviceTasks) {
        let file = CheckpointFile::new(settings.plugin_dir());
        let mut found = Vec::new();
        let (allocations, recovering) = match file.load() {
            Ok(Some(checkpoint)) => {
                (DeviceAllocations::restore(settings.grace, checkpoint, Instant::now()), false)
            }
            // An agent that ended before it recovered the allocations has written no checkpoint.
            Ok(None) => (DeviceAllocations::new(settings.grace), file.was_damaged()),
            Err(damaged) => {
                found.push(DeviceEvent::Plugin {
                    reason: "DeviceCheckpointDamaged",
                    message: damaged.to_string(),
                });
                (DeviceAllocations::new(settings.grace), true)
            }
        };
        let stale = allocations.checkpoint().entries.iter().map(|entry| entry.pod_uid.clone()).collect();
        let state = State {
            allocations,
            plugins: BTreeMap::new(),
            removed: BTreeMap::new(),
            stale,
            suspects: BTreeSet::new(),
            recovering,
            closed: None,
            reported: BTreeMap::new(),
        };
        let devices = Self(Arc::new_cyclic(|inner: &std::sync::Weak<Inner>| {
            let own = inner.clone();
            let saver =
                WriteBehind::on_blocking_thread("no pod gets devices until it can be written", move |()| {
                    let Some(inner) = own.upgrade() else { return Ok(()) };
                    let state = inner.lock();
                    // Unknown allocations must not be written as free devices.
                    if state.recovering {
                        return Ok(());
                    }
                    let checkpoint = state.allocations.checkpoint();
                    drop(state);
                    file.save(&checkpoint)
                });
            Inner { state: Mutex::new(state), saver, events, changed: watch::Sender::new(0) }
        }));
        let (plugin_events, incoming) = plugin::channel();
        let plugins = match PluginServer::start(settings, plugin_events).await {
            Ok(plugins) => Some(plugins),
            Err(error) => {
                found.push(DeviceEvent::Plugin { reason: "DevicePluginsOff", message: error.to_string() });
                devices.0.lock().closed = Some(error.to_string());
                None
            }
        };
        found.into_iter().for_each(|event| (devices.0.events)(event));
        let task = tokio::spawn(parts::register("devices", LIMIT).task(devices.clone().listen(incoming)));
        (devices, DeviceTasks { _plugins: plugins, events: task })
    }

    /// A counter that grows with every change that may let a waiting pod continue, or that changes what is
    /// shown.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// For each resource its number of devices, and how many of them are healthy and can be allocated:
    /// capacity and allocatable of the node.
    pub fn amounts(&self) -> BTreeMap<String, (usize, usize)> {
        self.0.lock().allocations.amounts()
    }

    /// How many devices of a resource these pods can have together, including those that they have; `None`
    /// while the resource has no connected plugin, or while allocations are recovered.
    pub fn usable(&self, resource: &str, ours: impl Fn(&str) -> bool) -> Option<usize> {
        let state = self.0.lock();
        if state.recovering { None } else { state.allocations.usable(resource, ours) }
    }

    /// How many devices of a resource are healthy and free, and how many are not healthy; `None` if the
    /// resource is not known.
    pub fn spare(&self, resource: &str) -> Option<(usize, usize)> {
        self.0.lock().allocations.spare(resource)
    }

    /// What the plugins add to a container's configuration for its devices.
    pub fn injection(&self, uid: &str, container: &str) -> DeviceInjection {
        let all = self.0.lock().allocations.of_pod(uid);
        all.get(container).map(injection_of).unwrap_or_default()
    }

    /// The pod's allocations, by container and resource.
    pub(crate) fn allocations(&self, uid: &str) -> BTreeMap<String, BTreeMap<String, Allocation>> {
        self.0.lock().allocations.of_pod(uid)
    }

    /// Health of one device; unknown if its plugin is not connected or does not list it.
    pub(crate) fn health_of(&self, resource: &str, id: &str) -> Health {
        self.0.lock().allocations.health(resource, id)
    }

    /// Health of the devices of a pod's containers: by container, resource and id.
    pub fn health(&self, uid: &str) -> DeviceHealth {
        let state = self.0.lock();
        let of = |resource: &str, id: String| {
            let health = state.allocations.health(resource, &id);
            (id, health)
        };
        let all = state.allocations.of_pod(uid).into_iter();
        all.map(|(container, own)| {
            let own = own.into_iter().map(|(resource, allocation)| {
                let ids = allocation.ids().into_iter().map(|id| of(&resource, id)).collect();
                (resource, ids)
            });
            (container, own.collect())
        })
        .collect()
    }

    /// Marks a pod from the checkpoint as existing, so that its devices are not freed.
    pub fn claim(&self, uid: &str) {
        self.0.lock().stale.remove(uid);
    }

    /// Uids of pods in the checkpoint that were not claimed yet.
    pub fn stale(&self) -> BTreeSet<String> {
        self.0.lock().stale.clone()
    }

    /// Frees the devices of unclaimed pods for which `gone` returns true in two calls in a row: a manifest
    /// may still appear between the two.
    pub fn free_stale(&self, gone: impl Fn(&str) -> bool) {
        let freed = {
            let mut state = self.0.lock();
            let found: BTreeSet<String> = state.stale.iter().filter(|uid| gone(uid)).cloned().collect();
            let freed: Vec<String> = found.intersection(&state.suspects).cloned().collect();
            state.suspects = found;
            for uid in &freed {
                state.stale.remove(uid);
                state.allocations.release(uid);
            }
            freed
        };
        if !freed.is_empty() {
            let message =
                format!("devices of pods that no longer exist are free again: {}", freed.join(", "));
            (self.0.events)(DeviceEvent::Plugin { reason: "DevicesFreed", message });
            self.0.save_and_notify();
        }
    }

    /// Frees the devices of a pod that has ended.
    pub fn release(&self, uid: &str) {
        if self.0.lock().allocations.release(uid) {
            self.0.save_and_notify();
        }
    }

    /// Frees the devices that only the pod's init containers had, once these have finished. The kubelet keeps
    /// them.
    pub fn release_surplus(&self, demand: &super::PodDemand) {
        if self.0.lock().allocations.release_surplus(demand) {
            self.0.save_and_notify();
        }
    }

    /// Whether the runtime still has to be asked which containers have which devices.
    pub fn is_recovering(&self) -> bool {
        self.0.lock().recovering
    }

    /// Restores allocations after a damaged checkpoint, from what the runtime knows of all existing
    /// containers: pod uid, container name, and device ids by resource.
    pub fn recovered(&self, found: Vec<(String, String, BTreeMap<String, DevicesPerNuma>)>) {
        let mut count = 0;
        {
            let mut state = self.0.lock();
            state.recovering = false;
            for (uid, container, resources) in found {
                for (resource, devices) in resources {
                    count += 1;
                    state.allocations.recover(&uid, &container, &resource, devices);
                }
            }
        }
        let message = format!("{count} allocations were found again at the runtime");
        (self.0.events)(DeviceEvent::Plugin { reason: "DevicesRecovered", message });
        self.0.save_and_notify();
    }
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Saves a change in the background and wakes those that wait for changes.
    pub(super) fn save_and_notify(&self) {
        self.saver.save(());
        self.changed.send_modify(|number| *number += 1);
    }

    /// Marks a change for which the caller itself waits until it is saved, and wakes those that wait for
    /// changes.
    pub(super) fn mark_and_notify(&self) {
        self.saver.save_when_settled(());
        self.changed.send_modify(|number| *number += 1);
    }
}
