//! The device manager: what plugins say, who has what, and the checkpoint, behind one handle.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use super::checkpoint::CheckpointFile;
use super::injection::injection;
use super::ledger::{HealthChange, Ledger};
use super::plugin::{Plugin, PluginEvent, Plugins};
use super::{Allocation, DeviceHealth};
use nodewarden_config::DeviceSettings;
use nodewarden_model::{DevicesPerNuma, Health};
use nodewarden_pods::spec::Given;
use nodewarden_storage::write_behind::WriteBehind;

/// What is told of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Of the node's plugins.
    Plugin { reason: &'static str, message: String },
    /// Of a container that has the device.
    Container { uid: String, container: String, reason: &'static str, message: String },
}

/// Takes notes.
pub type Tell = Arc<dyn Fn(Note) + Send + Sync>;

/// The handle; cloning shares it.
#[derive(Clone)]
pub struct Devices(pub(super) Arc<Inner>);

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").finish_non_exhaustive()
    }
}

pub(super) struct Inner {
    pub(super) state: Mutex<State>,
    /// Writes the checkpoint: of what there is when it is written.
    pub(super) saver: WriteBehind<()>,
    tell: Tell,
    changed: watch::Sender<u64>,
}

/// Never held across an await.
pub(super) struct State {
    pub(super) ledger: Ledger,
    /// The newest registration of each resource that is connected.
    pub(super) plugins: BTreeMap<String, Plugin>,
    pub(super) removed: BTreeMap<String, SystemTime>,
    /// Pods of the checkpoint that nobody has claimed yet.
    stale: BTreeSet<String>,
    /// Those that no longer existed at the last look.
    suspects: BTreeSet<String>,
    /// The checkpoint was damaged, and the runtime has not been asked yet.
    pub(super) recovering: bool,
    /// Why no plugin can register.
    pub(super) closed: Option<String>,
    told: BTreeSet<String>,
}

/// Serves plugins as long as it lives.
pub struct Serving {
    _plugins: Option<Plugins>,
    events: tokio::task::JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.events.abort();
    }
}

impl Devices {
    /// With what an earlier agent, or a kubelet, left; then plugins may register. Must be called inside a tokio runtime.
    ///
    /// Where sockets or directories cannot be made, the agent goes on without plugins, and says so.
    pub async fn start(settings: &DeviceSettings, tell: Tell) -> (Self, Serving) {
        let file = CheckpointFile::new(settings.plugin_dir());
        let mut notes = Vec::new();
        let (ledger, recovering) = match file.load() {
            Ok(Some(checkpoint)) => (Ledger::restore(settings.grace, checkpoint, Instant::now()), false),
            // An agent that died before it had recovered has left none.
            Ok(None) => (Ledger::new(settings.grace), file.was_damaged()),
            Err(damaged) => {
                notes.push(Note::Plugin { reason: "DeviceCheckpointDamaged", message: damaged.to_string() });
                (Ledger::new(settings.grace), true)
            }
        };
        let stale = ledger.checkpoint().entries.into_iter().map(|entry| entry.pod_uid).collect();
        let state = State {
            ledger,
            plugins: BTreeMap::new(),
            removed: BTreeMap::new(),
            stale,
            suspects: BTreeSet::new(),
            recovering,
            closed: None,
            told: BTreeSet::new(),
        };
        let devices = Self(Arc::new_cyclic(|inner: &std::sync::Weak<Inner>| {
            let own = inner.clone();
            let saver = WriteBehind::on_task("no pod gets devices until it can be written", move |()| {
                let Some(inner) = own.upgrade() else { return Ok(()) };
                let state = inner.lock();
                // What is not known yet must not be written as unallocated.
                if state.recovering {
                    return Ok(());
                }
                let checkpoint = state.ledger.checkpoint();
                drop(state);
                file.save(&checkpoint)
            });
            Inner { state: Mutex::new(state), saver, tell, changed: watch::Sender::new(0) }
        }));
        let (events, incoming) = mpsc::unbounded_channel();
        let plugins = match Plugins::start(settings, events).await {
            Ok(plugins) => Some(plugins),
            Err(error) => {
                notes.push(Note::Plugin { reason: "DevicePluginsOff", message: error.to_string() });
                devices.0.lock().closed = Some(error.to_string());
                None
            }
        };
        notes.into_iter().for_each(|note| (devices.0.tell)(note));
        let task = tokio::spawn(devices.clone().listen(incoming));
        (devices, Serving { _plugins: plugins, events: task })
    }

    /// Grows with everything that may let a waiting pod go on, or that shows.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// How many devices of a resource these pods can have together, those that they have among them; `None` as long as
    /// no plugin says what there is.
    pub fn usable(&self, resource: &str, ours: impl Fn(&str) -> bool) -> Option<usize> {
        let state = self.0.lock();
        if state.recovering { None } else { state.ledger.usable(resource, ours) }
    }

    /// How many devices of a resource are healthy and nobody's, and how many are not healthy; `None` where no plugin says
    /// what there is.
    pub fn spare(&self, resource: &str) -> Option<(usize, usize)> {
        self.0.lock().ledger.spare(resource)
    }

    /// What a container gets with its devices.
    pub fn given(&self, uid: &str, container: &str) -> Given {
        let all = self.0.lock().ledger.allocations(uid);
        all.get(container).map(injection).unwrap_or_default()
    }

    /// What the pod has: by container and resource.
    pub fn allocations(&self, uid: &str) -> BTreeMap<String, BTreeMap<String, Allocation>> {
        self.0.lock().ledger.allocations(uid)
    }

    /// Health of one device.
    pub fn health_of(&self, resource: &str, id: &str) -> Health {
        self.0.lock().ledger.health(resource, id)
    }

    /// Health of the devices of a pod's containers: by container, resource and id.
    pub fn health(&self, uid: &str) -> DeviceHealth {
        let state = self.0.lock();
        let of = |resource: &str, id: String| {
            let health = state.ledger.health(resource, &id);
            (id, health)
        };
        let all = state.ledger.allocations(uid).into_iter();
        all.map(|(container, own)| {
            let own = own.into_iter().map(|(resource, allocation)| {
                let ids = allocation.ids().into_iter().map(|id| of(&resource, id)).collect();
                (resource, ids)
            });
            (container, own.collect())
        })
        .collect()
    }

    /// The pod has a worker: what the checkpoint says it has is its own.
    pub fn claim(&self, uid: &str) {
        self.0.lock().stale.remove(uid);
    }

    /// Pods of the checkpoint that nobody has claimed.
    pub fn stale(&self) -> BTreeSet<String> {
        self.0.lock().stale.clone()
    }

    /// Frees the devices of unclaimed pods for which this says that they no longer exist, and said so before: a manifest
    /// may be about to come.
    pub fn free_stale(&self, gone: impl Fn(&str) -> bool) {
        let freed = {
            let mut state = self.0.lock();
            let found: BTreeSet<String> = state.stale.iter().filter(|uid| gone(uid)).cloned().collect();
            let freed: Vec<String> = found.intersection(&state.suspects).cloned().collect();
            state.suspects = found;
            for uid in &freed {
                state.stale.remove(uid);
                state.ledger.release(uid);
            }
            freed
        };
        if !freed.is_empty() {
            let message =
                format!("devices of pods that no longer exist are free again: {}", freed.join(", "));
            (self.0.tell)(Note::Plugin { reason: "DevicesFreed", message });
            self.0.happened();
        }
    }

    /// The pod is gone.
    pub fn release(&self, uid: &str) {
        if self.0.lock().ledger.release(uid) {
            self.0.happened();
        }
    }

    /// The pod's init containers have finished: what only they had is free again, which the kubelet keeps.
    pub fn release_surplus(&self, demand: &super::PodDemand) {
        if self.0.lock().ledger.release_surplus(demand) {
            self.0.happened();
        }
    }

    /// Whether the runtime is to be asked what containers have.
    pub fn is_recovering(&self) -> bool {
        self.0.lock().recovering
    }

    /// What the runtime says of all containers that are there: uid, container and its devices by resource.
    pub fn recovered(&self, found: Vec<(String, String, BTreeMap<String, DevicesPerNuma>)>) {
        let mut count = 0;
        {
            let mut state = self.0.lock();
            state.recovering = false;
            for (uid, container, resources) in found {
                for (resource, devices) in resources {
                    count += 1;
                    state.ledger.recover(&uid, &container, &resource, devices);
                }
            }
        }
        let message = format!("{count} allocations were found again at the runtime");
        (self.0.tell)(Note::Plugin { reason: "DevicesRecovered", message });
        self.0.happened();
    }

    async fn listen(self, mut events: mpsc::UnboundedReceiver<PluginEvent>) {
        loop {
            let expiry = self.0.lock().ledger.next_expiry();
            let expired = async {
                match expiry {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.0.take(event),
                    // The servers could not be started: what was registered before still expires.
                    None if expiry.is_some() => {
                        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                        self.0.expire();
                    }
                    None => std::future::pending().await,
                },
                () = expired => self.0.expire(),
            }
        }
    }
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Something changed that is to be saved and that others wait for.
    pub(super) fn happened(&self) {
        self.saver.save(());
        self.changed.send_modify(|number| *number += 1);
    }

    /// The same, and whoever changed it waits for the checkpoint.
    pub(super) fn changed(&self) {
        self.saver.save_when_settled(());
        self.changed.send_modify(|number| *number += 1);
    }

    pub(super) fn tell(&self, note: Note) {
        (self.tell)(note);
    }

    fn plugin(&self, reason: &'static str, message: String) {
        self.tell(Note::Plugin { reason, message });
    }

    /// Once for the same message.
    fn plugin_once(&self, reason: &'static str, message: String) {
        if self.lock().told.insert(message.clone()) {
            self.plugin(reason, message);
        }
    }

    fn take(&self, event: PluginEvent) {
        match event {
            PluginEvent::Registered(plugin) => {
                let resource = plugin.resource().to_owned();
                {
                    let mut state = self.lock();
                    state.ledger.register(&resource, plugin.generation());
                    state.removed.remove(&resource);
                    state.plugins.insert(resource.clone(), plugin);
                }
                self.plugin(
                    "DevicePluginRegistered",
                    format!("the device plugin of {resource} has registered"),
                );
                self.happened();
            }
            PluginEvent::Devices { resource, generation, devices, problems } => {
                let count = devices.len();
                let changes = self.lock().ledger.devices(&resource, generation, devices);
                for problem in problems {
                    self.plugin_once("DevicePluginProblem", format!("{resource}: {problem}"));
                }
                if changes.changed {
                    tracing::debug!(resource, count, "devices");
                    self.healths(changes.health);
                    self.happened();
                }
            }
            PluginEvent::Stopped { resource, generation, reason } => {
                let changes = {
                    let mut state = self.lock();
                    if state.plugins.get(&resource).is_some_and(|plugin| plugin.generation() == generation) {
                        state.plugins.remove(&resource);
                    }
                    state.ledger.stopped(&resource, generation, Instant::now())
                };
                if changes.changed {
                    let message = format!("the device plugin of {resource} is away: {reason}");
                    self.plugin("DevicePluginStopped", message);
                    self.healths(changes.health);
                    self.happened();
                }
            }
            PluginEvent::Refused { what, reason } => {
                self.plugin("DevicePluginRefused", format!("{what}: {reason}"));
            }
        }
    }

    fn expire(&self) {
        let gone = {
            let mut state = self.lock();
            let gone = state.ledger.expire(Instant::now());
            state.removed.extend(gone.iter().map(|resource| (resource.clone(), SystemTime::now())));
            gone
        };
        for resource in &gone {
            let message = format!(
                "{resource} is no longer a resource of this node: its device plugin did not come back"
            );
            self.plugin("DeviceResourceRemoved", message);
        }
        if !gone.is_empty() {
            self.happened();
        }
    }

    /// Tells those who have the devices.
    fn healths(&self, changes: Vec<HealthChange>) {
        for change in changes {
            let Some((uid, container)) = change.owner else { continue };
            let (reason, now) = match change.after {
                Health::Healthy => ("DeviceHealthy", "healthy again"),
                Health::Unhealthy => ("DeviceUnhealthy", "unhealthy"),
                Health::Unknown => (
                    "DeviceUnhealthy",
                    "no longer known to be healthy: its plugin is away or does not list it",
                ),
            };
            let message = format!("device {} of {} is {now}", change.id, change.resource);
            self.tell(Note::Container { uid, container, reason, message });
        }
    }
}
