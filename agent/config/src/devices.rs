//! Device plugins and access to devices: the section `nodewarden.devices`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use crate::defaults as d;
use crate::fields::{Fields, shown};
use crate::reading::Reading;
use crate::shape::Shape;
use crate::show::{Map, pair};

/// Settings of device plugins and of device access control.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSettings {
    /// `kubeletDir`, the kubelet's `--root-dir`: `device-plugins/`, `plugins_registry/` and `pod-resources/`
    /// are in it.
    pub kubelet_dir: PathBuf,
    /// `pluginTimeoutSeconds`: how long a plugin may take to answer one call. The kubelet gives 30 s to
    /// PreStartContainer and does not bound the others.
    pub plugin_timeout: Duration,
    /// `graceSeconds`: how long a resource outlives its plugin (kubelet: `endpointStopGracePeriod`, 5 min).
    pub grace: Duration,
    /// `enforcement`: what is done about accesses to devices that are not allocated to the pod.
    pub enforcement: Enforcement,
    /// `privilegedEnforcement`: the same for pods with a privileged container.
    pub privileged_enforcement: Enforcement,
    /// `cutUnhealthy`: a device that turns unhealthy is cut off from running pods until it is healthy again.
    pub cut_unhealthy: bool,
    /// `extra`: paths of further devices of a resource that its plugin does not report (a runtime's hook adds
    /// them), by resource name; the last component may contain `*`.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl DeviceSettings {
    /// Whether device access is controlled for any pod.
    pub fn guards(&self) -> bool {
        self.enforcement != Enforcement::Off || self.privileged_enforcement != Enforcement::Off
    }

    /// Directory of the plugins' sockets and of the kubelet's checkpoint.
    pub fn plugin_dir(&self) -> PathBuf {
        self.kubelet_dir.join("device-plugins")
    }

    /// Directory of the sockets of plugins that use the plugin watcher.
    pub fn registry_dir(&self) -> PathBuf {
        self.kubelet_dir.join("plugins_registry")
    }

    /// Path of the PodResources socket.
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

/// What is done about accesses to devices that are not allocated to the pod.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumString, strum::IntoStaticStr,
)]
pub enum Enforcement {
    /// Nothing: only the runtime's own rules apply.
    Off,
    /// Accesses are allowed, counted and reported.
    Audit,
    /// Accesses are denied, counted and reported.
    Enforce,
}

impl Enforcement {
    /// The value as it is written in the file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

const TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=600;
const GRACE_SECONDS: RangeInclusive<u64> = 0..=86_400;

/// Reads the section; adds what was found to `reading`.
pub fn take(map: Mapping, reading: &mut Reading) -> DeviceSettings {
    let default = DeviceSettings::default();
    let mut f = Fields::new("nodewarden.devices", map, Vec::new(), reading);
    let settings = DeviceSettings {
        kubelet_dir: f.path("kubeletDir", d::KUBELET_DIR, d::KUBELET_DIR_BYTES),
        plugin_timeout: f.seconds("pluginTimeoutSeconds", default.plugin_timeout, &TIMEOUT_SECONDS),
        grace: f.seconds("graceSeconds", default.grace, &GRACE_SECONDS),
        enforcement: enforcement(&mut f, "enforcement").unwrap_or(default.enforcement),
        privileged_enforcement: enforcement(&mut f, "privilegedEnforcement")
            .unwrap_or(default.privileged_enforcement),
        cut_unhealthy: f.flag("cutUnhealthy", default.cut_unhealthy),
        extra: extra(&mut f),
    };
    f.finish();
    settings
}

fn enforcement(f: &mut Fields<'_>, key: &'static str) -> Option<Enforcement> {
    f.choice(key, &["Off", "Audit", "Enforce"], false)
}

fn extra(f: &mut Fields<'_>) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::new();
    for (resource, paths) in f.map("extra", &Shape::List(&Shape::Text)) {
        let resource = shown(&resource);
        let field = format!("extra.{resource}");
        let listed = paths.as_sequence().map(|paths| paths.iter().map(Value::as_str).collect::<Vec<_>>());
        let Some(listed) = listed else {
            f.refuse(&field, &shown(&paths), "a list of paths of devices");
            continue;
        };
        let mut good = Vec::new();
        for path in listed {
            match path.filter(|path| is_device_path(path)) {
                Some(path) => good.push(path.to_owned()),
                None => f.refuse(
                    &field,
                    path.unwrap_or("no text"),
                    "a path below /dev without . and .., its last part with * where any text may stand",
                ),
            }
        }
        extra.insert(resource, good);
    }
    extra
}

fn is_device_path(path: &str) -> bool {
    let Some(below) = path.strip_prefix("/dev/") else { return false };
    let mut parts = below.split('/').peekable();
    let mut fine = true;
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        fine &= !["", ".", ".."].contains(&part) && (last || !part.contains('*'));
    }
    fine && !path.contains('\0')
}

pub(crate) fn show(devices: &DeviceSettings) -> Mapping {
    let mut map = Map::default();
    map.put("kubeletDir", &*devices.kubelet_dir.to_string_lossy());
    map.put("pluginTimeoutSeconds", devices.plugin_timeout.as_secs());
    map.put("graceSeconds", devices.grace.as_secs());
    map.put("enforcement", devices.enforcement.name());
    map.put("privilegedEnforcement", devices.privileged_enforcement.name());
    map.put("cutUnhealthy", devices.cut_unhealthy);
    let extra = devices.extra.iter().map(|(resource, paths)| pair(resource, paths.clone()));
    map.put("extra", extra.collect::<Mapping>());
    map.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (DeviceSettings, Vec<String>) {
        let mut reading = Reading::default();
        let map = serde_yaml_ng::from_str(text).expect("a mapping");
        let settings = take(map, &mut reading);
        (settings, reading.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key() {
        let (settings, problems) = read(
            "{kubeletDir: /k, pluginTimeoutSeconds: 3, graceSeconds: 0, enforcement: Audit, \
             privilegedEnforcement: Enforce, cutUnhealthy: true, extra: {nvidia.com/gpu: [/dev/nvidia*]}}",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.plugin_dir().to_str(), Some("/k/device-plugins"));
        assert_eq!((settings.plugin_timeout.as_secs(), settings.grace.as_secs()), (3, 0));
        assert_eq!(settings.enforcement, Enforcement::Audit);
        assert_eq!(settings.privileged_enforcement, Enforcement::Enforce);
        assert!(settings.cut_unhealthy);
        assert_eq!(settings.extra["nvidia.com/gpu"], ["/dev/nvidia*"]);
        assert_eq!(read("{}").0, DeviceSettings::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("{enforcement: audit}", "nodewarden.devices.enforcement"),
            ("{kubeletDir: lib}", "nodewarden.devices.kubeletDir"),
            ("{extra: {a/b: /dev/x}}", "nodewarden.devices.extra.a/b"),
            ("{extra: {a/b: [/dev/../x]}}", "nodewarden.devices.extra.a/b"),
            ("{extra: {a/b: [/dev/*/x]}}", "nodewarden.devices.extra.a/b"),
            ("{pluginTimeoutSeconds: 0}", "from 1 to 600"),
            ("{graceSecond: 1}", "did you mean graceSeconds?"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|p| p.contains(part)), "{text}: {problems:?}");
        }
    }
}
