//! What allocated devices add to a container's configuration.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_model::DevicesPerNuma;
use nodewarden_proto::runtime::v1 as cri;

pub use nodewarden_cri::labels::DEVICES;

fn ids_to_json(ids: &BTreeMap<String, DevicesPerNuma>) -> String {
    // Maps of strings and numbers can always be serialized.
    serde_json::to_string(ids).unwrap_or_default()
}

/// Parses the annotation [`DEVICES`]; `None` if it does not have our format.
pub fn ids_from_json(text: &str) -> Option<BTreeMap<String, DevicesPerNuma>> {
    serde_json::from_str(text).ok()
}

/// The additions of all allocated devices to a container's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceInjection {
    /// Environment variables; the manifest's own of the same name win.
    pub envs: BTreeMap<String, String>,
    /// Path in the container, path on the host, and whether it is read-only. In the order of the resources.
    pub mounts: Vec<(String, String, bool)>,
    /// Path in the container, path on the host, and permissions.
    pub devices: Vec<(String, String, String)>,
    /// Annotations of the plugins, without [`DEVICES`].
    pub annotations: BTreeMap<String, String>,
    /// Fully qualified CDI names.
    pub cdi: BTreeSet<String>,
    /// The allocated devices by resource.
    pub ids: BTreeMap<String, DevicesPerNuma>,
    /// Messages about names or paths for which two resources have different values; the later one is used, as
    /// in the kubelet.
    pub conflicts: Vec<String>,
}

impl DeviceInjection {
    /// Whether no device is allocated to the container.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The mounts in CRI's form.
    pub fn mounts(&self) -> impl Iterator<Item = cri::Mount> {
        self.mounts.iter().map(|(container_path, host_path, readonly)| cri::Mount {
            container_path: container_path.clone(),
            host_path: host_path.clone(),
            readonly: *readonly,
            propagation: cri::MountPropagation::PropagationPrivate.into(),
            ..Default::default()
        })
    }

    /// The device nodes in CRI's form.
    pub fn devices(&self) -> impl Iterator<Item = cri::Device> {
        self.devices.iter().map(|(container_path, host_path, permissions)| cri::Device {
            container_path: container_path.clone(),
            host_path: host_path.clone(),
            permissions: permissions.clone(),
        })
    }

    /// The plugins' annotations, and [`DEVICES`].
    pub fn annotations(&self) -> impl Iterator<Item = (String, String)> {
        let own = (!self.is_empty()).then(|| (DEVICES.to_owned(), ids_to_json(&self.ids)));
        self.annotations.iter().map(|(name, value)| (name.clone(), value.clone())).chain(own)
    }
}
