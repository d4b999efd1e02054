//! Plugins over real sockets, in real time.

mod calls;
mod life;
mod registering;
mod start;

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::fixture::{Fake, SOON, Script, register, request};
use super::*;
use nodewarden_model::Health;

/// A node with its servers, and what plugins say.
pub struct Node {
    _dir: TempDir,
    pub settings: DeviceSettings,
    pub events: mpsc::UnboundedReceiver<PluginEvent>,
    pub plugins: Plugins,
}

impl Node {
    /// Plugins have long enough for each call, also where the machine has much else to do.
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
        let (send, events) = mpsc::unbounded_channel();
        let plugins = Plugins::start(&settings, send).await.unwrap();
        Self { _dir: dir, settings, events, plugins }
    }

    pub fn plugin_dir(&self) -> PathBuf {
        self.settings.plugin_dir()
    }

    /// A plugin with its socket in the directory.
    pub fn fake(&self, name: &str, script: Script) -> Fake {
        Fake::start(&self.plugin_dir().join(name), script)
    }

    /// A plugin that has registered, and its first devices have come.
    pub async fn registered(&mut self, resource: &str, script: Script) -> (Fake, Plugin) {
        let fake = self.fake(&format!("{}.sock", resource.replace('/', "-")), script);
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

    /// Resource, generation, ids with their health, problems.
    pub async fn devices(&mut self) -> (String, u64, Vec<(String, Health)>, Vec<String>) {
        match self.event().await {
            PluginEvent::Devices { resource, generation, devices, problems } => {
                let devices = devices.into_iter().map(|d| (d.id, d.health)).collect();
                (resource, generation, devices, problems)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Resource, generation, reason.
    pub async fn stopped(&mut self) -> (String, u64, String) {
        match self.event().await {
            PluginEvent::Stopped { resource, generation, reason } => (resource, generation, reason),
            other => panic!("{other:?}"),
        }
    }

    /// What, and the reason.
    pub async fn refused(&mut self) -> (String, String) {
        match self.event().await {
            PluginEvent::Refused { what, reason } => (what, reason),
            other => panic!("{other:?}"),
        }
    }

    /// Nothing more is said for a while.
    pub async fn silence(&mut self) {
        let event = tokio::time::timeout(Duration::from_millis(150), self.events.recv()).await;
        assert!(event.is_err(), "{event:?}");
    }
}
