//! What an operator sets of devices: `nodewarden.devices`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of device plugins and of who may open which device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSettings {
    /// `kubeletDir`, the kubelet's `--root-dir`: `device-plugins/`, `plugins_registry/` and `pod-resources/` are in it.
    pub kubelet_dir: PathBuf,
    /// `pluginTimeoutSeconds`: how long a plugin may take to answer one call. The kubelet gives 30 s to
    /// PreStartContainer and does not bound the others.
    pub plugin_timeout: Duration,
    /// `graceSeconds`: how long a resource outlives its plugin (kubelet: `endpointStopGracePeriod`, 5 min).
    pub grace: Duration,
    /// `enforcement`: what is done about accesses to devices that a pod was not given.
    pub enforcement: Enforcement,
    /// `privilegedEnforcement`: the same for pods with a privileged container.
    pub privileged_enforcement: Enforcement,
    /// `cutUnhealthy`: a device that turns unhealthy is cut off from running pods until it is healthy again.
    pub cut_unhealthy: bool,
    /// `extra`: paths of devices that come with a resource without its plugin saying so (a runtime's hook adds them);
    /// the last part may have `*` in it. By resource name.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl DeviceSettings {
    /// Whether any pod's devices are guarded at all.
    pub fn guards(&self) -> bool {
        self.enforcement != Enforcement::Off || self.privileged_enforcement != Enforcement::Off
    }

    /// Where plugins have their sockets, and the kubelet's its checkpoint.
    pub fn plugin_dir(&self) -> PathBuf {
        self.kubelet_dir.join("device-plugins")
    }

    /// Where plugins of the plugin watcher have their sockets.
    pub fn registry_dir(&self) -> PathBuf {
        self.kubelet_dir.join("plugins_registry")
    }

    /// The socket of PodResources.
    pub fn pod_resources_socket(&self) -> PathBuf {
        self.kubelet_dir.join("pod-resources/kubelet.sock")
    }
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self {
            kubelet_dir: PathBuf::from("/var/lib/kubelet"),
            plugin_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(300),
            enforcement: Enforcement::Off,
            privileged_enforcement: Enforcement::Off,
            cut_unhealthy: false,
            extra: BTreeMap::new(),
        }
    }
}

/// What is done about accesses to devices that a pod was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Enforcement {
    /// Nothing: the runtime's own rules stand alone.
    Off,
    /// Allowed, counted and told.
    Audit,
    /// Refused, counted and told.
    Enforce,
}

impl Enforcement {
    pub const ALL: [Self; 3] = [Self::Off, Self::Audit, Self::Enforce];

    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Audit => "Audit",
            Self::Enforce => "Enforce",
        }
    }
}
