//! Which registration of a resource counts, and what it says.
//!
//! Each registration is tried by itself, for as long as it takes. Only when its plugin has answered does it take the
//! place of an earlier one, so that a registration that fails disturbs nobody; and never that of a later one. What is
//! told goes out under one lock: after a registration, nothing of an earlier one comes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nodewarden_proto::deviceplugin::v1beta1 as api;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::handle::End;
use super::request::Wanted;
use super::{Plugin, PluginError, PluginEvent, Whom, connection, listing};
use nodewarden_cri::reason;
use nodewarden_metrics::own::Own;

#[derive(Debug)]
pub struct Registry {
    limit: Duration,
    /// Of the last registration that was tried.
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

#[derive(Debug)]
struct Latest {
    generation: u64,
    /// `None` when it has stopped.
    plugin: Option<Plugin>,
}

impl Registry {
    /// `limit` is for each call to a plugin.
    pub fn new(limit: Duration, events: mpsc::UnboundedSender<PluginEvent>) -> Self {
        let state = State { latest: HashMap::new(), events: Some(events) };
        Self {
            limit,
            generation: AtomicU64::new(0),
            state: Mutex::new(state),
            closed: watch::Sender::new(false),
        }
    }

    /// Connects to a plugin, asks for its options, and listens to it from then on. One that is overtaken by a later
    /// registration has ended when it is returned.
    ///
    /// # Errors
    /// The plugin cannot be reached or does not tell its options.
    pub async fn register(self: &Arc<Self>, wanted: Wanted) -> Result<Plugin, PluginError> {
        ::metrics::counter!(Own::DevicePluginRegistrations.name(), "resource_name" => wanted.resource.clone())
            .increment(1);
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let Wanted { resource, socket, options } = wanted;
        let whom = Whom { resource, socket };
        let meeting = async {
            let channel = connection::connect(&whom, self.limit).await?;
            Plugin::meet(whom.clone(), generation, channel, options, self.limit).await
        };
        let plugin = tokio::select! {
            plugin = meeting => plugin?,
            () = self.closed() => return Err(PluginError::Ended { plugin: whom, call: "Register" }),
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
            info!("{} has registered again", before.whom());
            before.end(End::Replaced);
        } else {
            info!("{} has registered", plugin.whom());
        }
        // Nobody listens any more when everything ends.
        let _ = events.send(PluginEvent::Registered(plugin.clone()));
        tokio::spawn(listen(self.clone(), plugin.clone()));
    }

    /// Ends a registration, if it still counts.
    pub fn stop(&self, plugin: &Plugin, reason: String) {
        let mut state = self.lock();
        let State { latest, events } = &mut *state;
        let Some(latest) = latest.get_mut(plugin.resource()).filter(|l| l.generation == plugin.generation())
        else {
            return;
        };
        if latest.plugin.take().is_some() {
            warn!("{} has stopped: {reason}", plugin.whom());
            plugin.end(End::Stopped);
            let (resource, generation) = (plugin.resource().to_owned(), plugin.generation());
            send(events.as_ref(), PluginEvent::Stopped { resource, generation, reason });
        }
    }

    /// Tells that a registration was turned down.
    pub fn refused(&self, what: String, reason: String) {
        warn!("registration of {what} refused: {reason}");
        send(self.lock().events.as_ref(), PluginEvent::Refused { what, reason });
    }

    fn tell(&self, plugin: &Plugin, devices: Vec<super::Device>, problems: Vec<String>) {
        let state = self.lock();
        let counts = state
            .latest
            .get(plugin.resource())
            .is_some_and(|latest| latest.generation == plugin.generation() && latest.plugin.is_some());
        if counts {
            let (resource, generation) = (plugin.resource().to_owned(), plugin.generation());
            send(state.events.as_ref(), PluginEvent::Devices { resource, generation, devices, problems });
        }
    }

    /// Ends everything; nothing is told any more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.events = None;
        for plugin in state.latest.drain().filter_map(|(_, latest)| latest.plugin) {
            plugin.end(End::Stopped);
        }
        self.closed.send_replace(true);
    }

    /// Until it is closed.
    pub async fn closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here is left half done.
        self.state.lock()
    }

    /// For a call to a plugin.
    pub fn limit(&self) -> Duration {
        self.limit
    }
}

fn send(events: Option<&mpsc::UnboundedSender<PluginEvent>>, event: PluginEvent) {
    if let Some(events) = events {
        // Nobody listens any more when everything ends.
        let _ = events.send(event);
    }
}

/// ListAndWatch, until the registration ends.
async fn listen(registry: Arc<Registry>, plugin: Plugin) {
    let reason = tokio::select! {
        biased;
        _ = plugin.ended() => return,
        reason = lists(&registry, &plugin) => reason,
    };
    registry.stop(&plugin, format!("ListAndWatch: {reason}"));
}

/// Tells each list that is not as the one before; why there are no more.
async fn lists(registry: &Registry, plugin: &Plugin) -> String {
    let mut client = plugin.client();
    let mut opening = std::pin::pin!(async move {
        // A plugin may answer only when it has a list.
        let mut lists = client.list_and_watch(api::Empty {}).await?.into_inner();
        let first = lists.message().await?;
        Ok::<_, tonic::Status>((lists, first))
    });
    let opened = match tokio::time::timeout(plugin.limit(), &mut opening).await {
        Ok(opened) => opened,
        Err(_) => {
            // It may not know its devices yet.
            let seconds = plugin.limit().as_secs_f64();
            warn!("{}: ListAndWatch: no list of devices within {seconds} s: waiting on", plugin.whom());
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
            registry.tell(plugin, now.0, now.1);
        }
        next = match lists.message().await {
            Ok(next) => next,
            Err(status) => return reason(&status),
        };
    }
}
