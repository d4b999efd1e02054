//! Which registration of a resource is the current one, and the events of its plugin.
//!
//! Registrations are tried independently of each other. A registration replaces an earlier one only when its
//! plugin has answered, so that a failing registration disturbs no other; it never replaces a later one.
//! Events are sent under one lock: after a registration, no event of an earlier one is sent.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nodewarden_cri::reason;
use nodewarden_metrics::own::Own;
use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_tasks::parts;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::events::{EventSender, Room};
use super::handle::End;
use super::request::PluginRegistration;
use super::{
    LARGEST_LIST, LIMIT, MOST_DEVICES, MOST_RESOURCES, Plugin, PluginAddress, PluginError, PluginEvent,
    connection, listing,
};

/// Number of registrations that are tried at once; further ones wait.
const AT_ONCE: usize = 256;
/// What receives the lists of one registration, as a part of the agent: one for each.
const PART: &str = "lists of device plugins";
/// The label of registrations whose resource has no series of its own, because there are too many.
const OTHER: &str = "other";

/// The registrations of all plugins.
#[derive(Debug)]
pub struct Registry {
    limit: Duration,
    /// How long a resource is kept after its plugin has gone.
    grace: Duration,
    tried: Semaphore,
    /// Number of the last registration that was tried.
    generation: AtomicU64,
    state: Mutex<State>,
    closed: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// By resource.
    latest: HashMap<String, Latest>,
    /// Resources whose registrations are counted by name; a series stays as long as the agent.
    series: BTreeSet<String>,
    /// `None` when closed.
    events: Option<EventSender>,
}

/// The newest registration of a resource.
#[derive(Debug)]
struct Latest {
    generation: u64,
    /// `None` when it has stopped.
    plugin: Option<Plugin>,
    /// When it stopped.
    stopped: Option<Instant>,
}

impl State {
    /// The name under which registrations of the resource are counted.
    fn label(&mut self, resource: &str) -> String {
        if !self.series.contains(resource) && self.series.len() >= MOST_RESOURCES {
            return OTHER.to_owned();
        }
        self.series.insert(resource.to_owned());
        resource.to_owned()
    }

    /// Whether a resource can be registered: there are not too many others. Those whose plugins have been
    /// gone for `grace` are forgotten.
    fn has_room_for(&mut self, resource: &str, grace: Duration) -> bool {
        if self.latest.contains_key(resource) || self.latest.len() < MOST_RESOURCES {
            return true;
        }
        self.latest.retain(|_, latest| latest.stopped.is_none_or(|stopped| stopped.elapsed() < grace));
        self.latest.len() < MOST_RESOURCES
    }
}

impl Registry {
    /// `limit` is the longest time of each call to a plugin, `grace` how long a resource is kept after its
    /// plugin has gone.
    pub fn new(limit: Duration, grace: Duration, events: EventSender) -> Self {
        let state = State { latest: HashMap::new(), series: BTreeSet::new(), events: Some(events) };
        Self {
            limit,
            grace,
            tried: Semaphore::new(AT_ONCE),
            generation: AtomicU64::new(0),
            state: Mutex::new(state),
            closed: watch::Sender::new(false),
        }
    }

    /// Connects to a plugin, asks for its options, and receives its lists from then on. If a later
    /// registration of its resource came first, the returned one has ended already.
    ///
    /// # Errors
    /// The plugin cannot be reached or does not return its options, or too many resources are registered.
    pub async fn register(self: &Arc<Self>, wanted: PluginRegistration) -> Result<Plugin, PluginError> {
        let label = self.lock().label(&wanted.resource);
        metrics::counter!(Own::DevicePluginRegistrations.name(), "resource_name" => label).increment(1);
        // Never closed.
        let _turn = self.tried.acquire().await;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let PluginRegistration { resource, socket, options } = wanted;
        let address = PluginAddress { resource, socket };
        let connecting = async {
            let channel = connection::connect(&address, self.limit).await?;
            Plugin::query(address.clone(), generation, channel, options, self.limit).await
        };
        let plugin = tokio::select! {
            plugin = connecting => plugin?,
            () = self.closed() => return Err(PluginError::Ended { plugin: address, call: "Register" }),
        };
        let room = self.room(0).await;
        if !self.lock().has_room_for(plugin.resource(), self.grace) {
            plugin.end(End::Stopped);
            return Err(PluginError::Crowded { plugin: address, limit: MOST_RESOURCES });
        }
        self.install(&plugin, room);
        Ok(plugin)
    }

    /// Room for an event with a list of this many devices; `None` when closed.
    async fn room(&self, devices: usize) -> Option<Room> {
        let events = self.lock().events.clone()?;
        tokio::select! {
            room = events.room(devices) => Some(room),
            () = self.closed() => None,
        }
    }

    fn install(self: &Arc<Self>, plugin: &Plugin, room: Option<Room>) {
        let mut state = self.lock();
        let State { latest, events, .. } = &mut *state;
        let Some(events) = events else { return plugin.end(End::Stopped) };
        let generation = plugin.generation();
        let before = latest.get(plugin.resource());
        if before.is_some_and(|before| before.generation > generation) {
            return plugin.end(End::Replaced);
        }
        let now = Latest { generation, plugin: Some(plugin.clone()), stopped: None };
        if let Some(before) = latest.insert(plugin.resource().to_owned(), now).and_then(|b| b.plugin) {
            info!("{} has registered again", before.address());
            before.end(End::Replaced);
        } else {
            info!("{} has registered", plugin.address());
        }
        events.send(PluginEvent::Registered(plugin.clone()), room);
        spawn(listen(self.clone(), plugin.clone()));
    }

    /// Ends a registration, if it is still the current one.
    pub fn stop(&self, plugin: &Plugin, reason: String) {
        let mut state = self.lock();
        let State { latest, events, .. } = &mut *state;
        let Some(latest) = latest.get_mut(plugin.resource()).filter(|l| l.generation == plugin.generation())
        else {
            return;
        };
        if latest.plugin.take().is_some() {
            latest.stopped = Some(Instant::now());
            warn!("{} has stopped: {reason}", plugin.address());
            plugin.end(End::Stopped);
            let (resource, generation) = (plugin.resource().to_owned(), plugin.generation());
            send(events.as_ref(), PluginEvent::Stopped { resource, generation, reason }, None);
        }
    }

    /// Reports that a registration was refused.
    pub async fn refused(&self, what: String, reason: String) {
        warn!("registration of {what} refused: {reason}");
        let room = self.room(0).await;
        send(self.lock().events.as_ref(), PluginEvent::Refused { what, reason }, room);
    }

    /// Sends a list of devices, if the registration is the current one.
    async fn report_devices(&self, plugin: &Plugin, devices: Vec<super::Device>, problems: Vec<String>) {
        let room = self.room(devices.len()).await;
        let state = self.lock();
        let is_current = state
            .latest
            .get(plugin.resource())
            .is_some_and(|latest| latest.generation == plugin.generation() && latest.plugin.is_some());
        if is_current {
            let (resource, generation) = (plugin.resource().to_owned(), plugin.generation());
            let event = PluginEvent::Devices { resource, generation, devices, problems };
            send(state.events.as_ref(), event, room);
        }
    }

    /// Ends all registrations; no event is sent afterwards.
    pub fn close(&self) {
        let mut state = self.lock();
        state.events = None;
        for plugin in state.latest.drain().filter_map(|(_, latest)| latest.plugin) {
            plugin.end(End::Stopped);
        }
        self.closed.send_replace(true);
    }

    /// Waits until the registry is closed.
    pub async fn closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The longest time of a call to a plugin.
    pub fn limit(&self) -> Duration {
        self.limit
    }
}

fn send(events: Option<&EventSender>, event: PluginEvent, room: Option<Room>) {
    if let Some(events) = events {
        events.send(event, room);
    }
}

fn spawn(listen: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(parts::register(PART, LIMIT).task(listen))
}

/// Calls ListAndWatch, and receives lists until the registration ends.
async fn listen(registry: Arc<Registry>, plugin: Plugin) {
    let reason = tokio::select! {
        biased;
        _ = plugin.ended() => return,
        reason = receive_lists(&registry, &plugin) => reason,
    };
    registry.stop(&plugin, format!("ListAndWatch: {reason}"));
}

/// Reports each list that differs from the one before. Returns why there are no more.
async fn receive_lists(registry: &Registry, plugin: &Plugin) -> String {
    let mut client = plugin.client().max_decoding_message_size(LARGEST_LIST);
    let mut opening = std::pin::pin!(async move {
        // Some plugins answer only when they have a list.
        let mut lists = client.list_and_watch(api::Empty {}).await?.into_inner();
        let first = lists.message().await?;
        Ok::<_, tonic::Status>((lists, first))
    });
    let opened = match tokio::time::timeout(plugin.limit(), &mut opening).await {
        Ok(opened) => opened,
        Err(_) => {
            // The plugin may not know its devices yet.
            let seconds = plugin.limit().as_secs_f64();
            warn!("{}: ListAndWatch: no list of devices within {seconds} s: still waiting", plugin.address());
            opening.await
        }
    };
    let (mut lists, mut next) = match opened {
        Ok(opened) => opened,
        Err(status) => return reason(&status),
    };
    let mut before = None;
    loop {
        let Some(list) = next else { return "the plugin has ended its list of devices".to_owned() };
        if list.devices.len() > MOST_DEVICES {
            let count = list.devices.len();
            return format!("a list of {count} devices: one resource can have {MOST_DEVICES}");
        }
        let now = listing::devices(list);
        if before.as_ref() != Some(&now) {
            before = Some(now.clone());
            registry.report_devices(plugin, now.0, now.1).await;
        }
        next = match lists.message().await {
            Ok(next) => next,
            Err(status) => return reason(&status),
        };
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_tasks::parts::Parts;

    use super::*;

    #[tokio::test]
    async fn a_panic_in_what_receives_lists_is_noticed() {
        // Without the message and the backtrace, which would load the symbols into this process.
        let task = spawn(async { std::panic::resume_unwind(Box::new("planted")) });
        assert!(task.await.unwrap_err().is_panic());
        let found = Parts::of_process().health().into_iter().find(|one| one.part == PART);
        assert!(found.unwrap().problem.unwrap().starts_with("panicked"));
    }
}
