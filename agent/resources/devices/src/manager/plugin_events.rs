//! Applies the events of plugins to the allocations, and emits the manager's own events about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use nodewarden_model::Health;

use super::{DeviceEvent, Devices, Inner};
use crate::allocations::HealthChange;
use crate::plugin::{PluginEvent, PluginEvents};

/// Number of problems that are reported of one resource until it is removed.
const MOST_PROBLEMS: usize = 64;
/// Number of removed resources that are shown.
const MOST_REMOVED: usize = 64;

/// The problems of one resource's lists that were reported.
#[derive(Debug, Default)]
pub(super) struct Reported(BTreeSet<String>);

/// Whether a problem is to be reported.
#[derive(Debug, PartialEq, Eq)]
enum Report {
    New,
    /// It is, and none after it.
    Last,
    /// It was reported already, or too many others were.
    Known,
}

impl Reported {
    fn add(&mut self, problem: &str) -> Report {
        if self.0.len() >= MOST_PROBLEMS || !self.0.insert(problem.to_owned()) {
            return Report::Known;
        }
        if self.0.len() == MOST_PROBLEMS { Report::Last } else { Report::New }
    }
}

/// Keeps the resources that were removed last.
fn forget_oldest(removed: &mut BTreeMap<String, SystemTime>) {
    while removed.len() > MOST_REMOVED {
        let oldest = removed.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone());
        oldest.and_then(|name| removed.remove(&name));
    }
}

impl Devices {
    /// Handles the events of plugins, and removes resources whose plugins did not register again in time.
    pub(super) async fn listen(self, mut events: PluginEvents) {
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

    /// Reports each problem of a resource's list only once, and only the first ones.
    fn emit_problem_once(&self, resource: &str, problem: &str) {
        let reported = self.lock().reported.entry(resource.to_owned()).or_default().add(problem);
        match reported {
            Report::New => self.emit_plugin("DevicePluginProblem", format!("{resource}: {problem}")),
            Report::Last => {
                let message = format!("{resource}: {problem}; further problems are not reported");
                self.emit_plugin("DevicePluginProblem", message);
            }
            Report::Known => {}
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
                    self.emit_problem_once(&resource, &problem);
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
            forget_oldest(&mut state.removed);
            gone.iter().for_each(|resource| drop(state.reported.remove(resource)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_reported_once_and_not_without_end() {
        let mut reported = Reported::default();
        assert_eq!((reported.add("a"), reported.add("a")), (Report::New, Report::Known));
        let others: Vec<Report> = (0..1000).map(|n| reported.add(&n.to_string())).collect();
        assert_eq!(others.iter().filter(|report| **report == Report::New).count(), MOST_PROBLEMS - 2);
        assert_eq!(others.iter().filter(|report| **report == Report::Last).count(), 1);
        assert_eq!(reported.0.len(), MOST_PROBLEMS);
    }

    #[test]
    fn the_resources_that_were_removed_last_are_shown() {
        let at = |n: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(n);
        let mut removed: BTreeMap<String, SystemTime> =
            (0..100).map(|n| (format!("v.com/{n}"), at(n))).collect();
        forget_oldest(&mut removed);
        assert_eq!(removed.len(), MOST_REMOVED);
        assert!(removed.contains_key("v.com/99") && !removed.contains_key("v.com/35"));
    }
}
