//! Applies the events of plugins to the allocations, and emits the manager's own events about them.

use std::time::{Duration, Instant, SystemTime};

use nodewarden_model::Health;
use tokio::sync::mpsc;

use super::{DeviceEvent, Devices, Inner};
use crate::allocations::HealthChange;
use crate::plugin::PluginEvent;

impl Devices {
    /// Handles the events of plugins, and removes resources whose plugins did not register again in time.
    pub(super) async fn listen(self, mut events: mpsc::UnboundedReceiver<PluginEvent>) {
        loop {
            let expiry = self.0.lock().allocations.next_expiry();
            let expired = async {
                match expiry {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.0.handle(event),
                    // The servers could not be started: resources from the checkpoint still expire.
                    None if expiry.is_some() => {
                        tokio::time::sleep(Duration::from_secs(1)).await;
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
    fn emit(&self, event: DeviceEvent) {
        (self.events)(event);
    }

    fn emit_plugin(&self, reason: &'static str, message: String) {
        self.emit(DeviceEvent::Plugin { reason, message });
    }

    /// Reports each message only once.
    fn emit_plugin_once(&self, reason: &'static str, message: String) {
        if self.lock().reported.insert(message.clone()) {
            self.emit_plugin(reason, message);
        }
    }

    fn handle(&self, event: PluginEvent) {
        match event {
            PluginEvent::Registered(plugin) => {
                let resource = plugin.resource().to_owned();
                {
                    let mut state = self.lock();
                    state.allocations.register(&resource, plugin.generation());
                    state.removed.remove(&resource);
                    state.plugins.insert(resource.clone(), plugin);
                }
                self.emit_plugin(
                    "DevicePluginRegistered",
                    format!("the device plugin of {resource} has registered"),
                );
                self.save_and_notify();
            }
            PluginEvent::Devices { resource, generation, devices, problems } => {
                let count = devices.len();
                let changes = self.lock().allocations.devices(&resource, generation, devices);
                for problem in problems {
                    self.emit_plugin_once("DevicePluginProblem", format!("{resource}: {problem}"));
                }
                if changes.changed {
                    tracing::debug!(resource, count, "devices");
                    self.report_health(changes.health);
                    self.save_and_notify();
                }
            }
            PluginEvent::Stopped { resource, generation, reason } => {
                let changes = {
                    let mut state = self.lock();
                    if state.plugins.get(&resource).is_some_and(|plugin| plugin.generation() == generation) {
                        state.plugins.remove(&resource);
                    }
                    state.allocations.stopped(&resource, generation, Instant::now())
                };
                if changes.changed {
                    let message = format!("the device plugin of {resource} is away: {reason}");
                    self.emit_plugin("DevicePluginStopped", message);
                    self.report_health(changes.health);
                    self.save_and_notify();
                }
            }
            PluginEvent::Refused { what, reason } => {
                self.emit_plugin("DevicePluginRefused", format!("{what}: {reason}"));
            }
        }
    }

    fn expire(&self) {
        let gone = {
            let mut state = self.lock();
            let gone = state.allocations.expire(Instant::now());
            state.removed.extend(gone.iter().map(|resource| (resource.clone(), SystemTime::now())));
            gone
        };
        for resource in &gone {
            let message = format!(
                "{resource} is no longer a resource of this node: its device plugin did not register again"
            );
            self.emit_plugin("DeviceResourceRemoved", message);
        }
        if !gone.is_empty() {
            self.save_and_notify();
        }
    }

    /// Reports changed health as events of the containers that have the devices.
    fn report_health(&self, changes: Vec<HealthChange>) {
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
            self.emit(DeviceEvent::Container { uid, container, reason, message });
        }
    }
}
