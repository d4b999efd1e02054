//! Which registration of a resource is the current one, and the events of its plugin.
//!
//! Registrations are tried independently of each other. A registration replaces an earlier one only when its
//! plugin has answered, so that a failing registration disturbs no other; it never replaces a later one.
//! Events are sent under one lock: after a registration, no event of an earlier one is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nodewarden_cri::reason;
use nodewarden_metrics::own::Own;
use nodewarden_proto::deviceplugin::v1beta1 as api;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::handle::End;
use super::request::PluginRegistration;
use super::{Plugin, PluginAddress, PluginError, PluginEvent, connection, listing};

/// The registrations of all plugins.
#[derive(Debug)]
pub struct Registry {
    limit: Duration,
    /// Number of the last registration that was tried.
    generation: AtomicU64,
    state: Mutex<State>,
    closed: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    /// By resource.
    latest: HashMap<String, Latest>,
    /// `None` when closed.
    events: Option<mpsc::UnboundedSender<PluginEvent>>,
}

/// The newest registration of a resource.
#[derive(Debug)]
struct Latest {
    generation: u64,
    /// `None` when it has stopped.
    plugin: Option<Plugin>,
}

impl Registry {
    /// `limit` is the longest time of each call to a plugin.
    pub fn new(limit: Duration, events: mpsc::UnboundedSender<PluginEvent>) -> Self {
        let state = State { latest: HashMap::new(), events: Some(events) };
        Self {
            limit,
            generation: AtomicU64::new(0),
            state: Mutex::new(state),
            closed: watch::Sender::new(false),
        }
    }

    /// Connects to a plugin, asks for its options, and receives its lists from then on. If a later
    /// registration of its resource came first, the returned one has ended already.
    ///
    /// # Errors
    /// The plugin cannot be reached or does not return its options.
    pub async fn register(self: &Arc<Self>, wanted: PluginRegistration) -> Result<Plugin, PluginError> {
        metrics::counter!(Own::DevicePluginRegistrations.name(), "resource_name" => wanted.resource.clone())
            .increment(1);
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
        self.install(&plugin);
        Ok(plugin)
    }

    fn install(self: &Arc<Self>, plugin: &Plugin) {
        let mut state = self.lock();
        let State { latest, events } = &mut *state;
        let Some(events) = events else { return plugin.end(End::Stopped) };
        let generation = plugin.generation();
        let before = latest.get(plugin.resource());
        if before.is_some_and(|before| before.generation > generation) {
            return plugin.end(End::Replaced);
        }
        let now = Latest { generation, plugin: Some(plugin.clone()) };
        if let Some(before) = latest.insert(plugin.resource().to_owned(), now).and_then(|b| b.plugin) {
            info!("{} has registered again", before.address());
            before.end(End::Replaced);
        } else {
            info!("{} has registered", plugin.address());
        }
        // An error only means that the receiver was dropped because the agent ends.
        let _ = events.send(PluginEvent::Registered(plugin.clone()));
        tokio::spawn(listen(self.clone(), plugin.clone()));
    }

    /// Ends a registration, if it is still the current one.
    pub fn stop(&self, plugin: &Plugin, reason: String) {
        let mut state = self.lock();
        let State { latest, events } = &mut *state;
        let Some(latest) = latest.get_mut(plugin.resource()).filter(|l| l.generation == plugin.generation())
        else {
            return;
        };
        if latest.plugin.take().is_some() {
            warn!("{} has stopped: {reason}", plugin.address());
            plugin.end(End::Stopped);
            let (resource, generation) = (plugin.resource().to_owned(), plugin.generation());
            send(events.as_ref(), PluginEvent::Stopped { resource, generation, reason });
        }
    }

    /// Reports that a registration was refused.
    pub fn refused(&self, what: String, reason: String) {
        warn!("registration of {what} refused: {reason}");
        send(self.lock().events.as_ref(), PluginEvent::Refused { what, reason });
    }

    /// Sends a list of devices, if the registration is the current one.
    fn report_devices(&self, plugin: &Plugin, devices: Vec<super::Device>, problems: Vec<String>) {
        let state = self.lock();
        let is_current = state
            .latest
            .get(plugin.resource())
            .is_some_and(|latest| latest.generation == plugin.generation() && latest.plugin.is_some());
        if is_current {
            let (resource, generation) = (plugin.resource().to_owned(), plugin.generation());
            send(state.events.as_ref(), PluginEvent::Devices { resource, generation, devices, problems });
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

fn send(events: Option<&mpsc::UnboundedSender<PluginEvent>>, event: PluginEvent) {
    if let Some(events) = events {
        // An error only means that the receiver was dropped because the agent ends.
        let _ = events.send(event);
    }
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
    let mut client = plugin.client();
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
        let now = listing::devices(list);
        if before.as_ref() != Some(&now) {
            before = Some(now.clone());
            registry.report_devices(plugin, now.0, now.1);
        }
        next = match lists.message().await {
            Ok(next) => next,
            Err(status) => return reason(&status),
        };
    }
}
