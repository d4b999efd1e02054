//! Plugins over real sockets, in real time.

mod calls;
mod life;
mod registering;
mod start;

use std::path::PathBuf;
use std::time::Duration;

use nodewarden_model::Health;
use tempfile::TempDir;

use super::fixture::{FakePlugin, SOON, Script, register, request};
use super::*;

/// A plugin server with the events that it sends.
pub struct Fixture {
    _dir: TempDir,
    pub settings: DeviceSettings,
    pub events: PluginEvents,
    pub plugins: PluginServer,
}

impl Fixture {
    /// Gives plugins enough time for each call, even on a busy machine.
    pub async fn start() -> Self {
        Self::with_limit(SOON).await
    }

    pub async fn with_limit(plugin_timeout: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = DeviceSettings {
            kubelet_dir: dir.path().join("kubelet"),
            plugin_timeout,
            ..DeviceSettings::default()
        };
        let (send, events) = channel();
        let plugins = PluginServer::start(&settings, send).await.unwrap();
        Self { _dir: dir, settings, events, plugins }
    }

    pub fn plugin_dir(&self) -> PathBuf {
        self.settings.plugin_dir()
    }

    /// Starts a plugin with its socket in the directory of plugins.
    pub fn plugin(&self, name: &str, script: Script) -> FakePlugin {
        FakePlugin::start(&self.plugin_dir().join(name), script)
    }

    /// Starts a plugin, and waits for its registration and first list of devices.
    pub async fn registered(&mut self, resource: &str, script: Script) -> (FakePlugin, Plugin) {
        let fake = self.plugin(&format!("{}.sock", resource.replace('/', "-")), script);
        register(&self.plugin_dir(), request(resource, fake.name())).await.unwrap();
        let plugin = self.registration().await;
        assert_eq!(plugin.resource(), resource);
        let (_, generation, _, _) = self.devices().await;
        assert_eq!(generation, plugin.generation());
        (fake, plugin)
    }

    pub async fn event(&mut self) -> PluginEvent {
        tokio::time::timeout(SOON, self.events.recv()).await.expect("an event comes").expect("they go on")
    }

    pub async fn registration(&mut self) -> Plugin {
        match self.event().await {
            PluginEvent::Registered(plugin) => plugin,
            other => panic!("{other:?}"),
        }
    }

    /// The next list: resource, generation, ids with their health, problems.
    pub async fn devices(&mut self) -> (String, u64, Vec<(String, Health)>, Vec<String>) {
        match self.event().await {
            PluginEvent::Devices { resource, generation, devices, problems } => {
                let devices = devices.into_iter().map(|d| (d.id, d.health)).collect();
                (resource, generation, devices, problems)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next end of a registration: resource, generation, reason.
    pub async fn stopped(&mut self) -> (String, u64, String) {
        match self.event().await {
            PluginEvent::Stopped { resource, generation, reason } => (resource, generation, reason),
            other => panic!("{other:?}"),
        }
    }

    /// The next refusal: what was refused, and the reason.
    pub async fn refused(&mut self) -> (String, String) {
        match self.event().await {
            PluginEvent::Refused { what, reason } => (what, reason),
            other => panic!("{other:?}"),
        }
    }

    /// Checks that no event comes for a while.
    pub async fn expect_no_event(&mut self) {
        let event = tokio::time::timeout(Duration::from_millis(150), self.events.recv()).await;
        assert!(event.is_err(), "{event:?}");
    }
}
