//! The rules that allow a pod its devices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::HostPathVolumeSource;
use nodewarden_ebpf_abi::{ANY_MINOR, DEFAULT_DEVICES};
use nodewarden_manifest::Pod;
use nodewarden_model::{HostDevice, HostDeviceKind};
use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;

use super::{Access, DeviceRule};

/// The devices that every container may open: null, zero, full, random, urandom, tty, console, ptmx and pts
/// (OCI runtime specification, "Default Devices").
pub fn defaults() -> impl Iterator<Item = DeviceRule> {
    DEFAULT_DEVICES.into_iter().map(|(major, minor)| DeviceRule {
        kind: HostDeviceKind::Char,
        major,
        minor: (minor != ANY_MINOR).then_some(minor),
        access: Access::ALL,
    })
}

/// The rules for what a pod may open in addition to the defaults, each device once:
///
/// - `hostPath` volumes: with type `CharDevice` or `BlockDevice`, a device of that type at the path; without
///   a type, the path if it is a device itself (a mounted directory of devices allows none).
/// - plugins' responses: devices with the permissions that they name, and mounts of device nodes or of
///   directories with device nodes in them, read-only if the mount is.
/// - `extra`: devices that belong to a resource although its plugin does not name them.
///
/// `device_nodes` returns the device nodes at a host path (links followed; a directory's entries), `None` if
/// nothing exists there.
pub fn rules(
    pod: &Pod,
    allocated: &[ContainerAllocateResponse],
    extra: &[HostDevice],
    device_nodes: impl Fn(&str) -> Option<Vec<HostDevice>>,
) -> Vec<DeviceRule> {
    let mut set = RuleSet::default();
    let spec = pod.spec();
    let volumes = spec.volumes.iter().flatten();
    for source in volumes.filter_map(|volume| volume.host_path.as_ref()) {
        let found = device_nodes(&source.path).unwrap_or_default();
        found.iter().filter(|device| grants(source, device)).for_each(|device| set.add(device, Access::ALL));
    }
    for response in allocated {
        for device in &response.devices {
            let access = Access::parse(&device.permissions);
            device_nodes(&device.host_path).iter().flatten().for_each(|found| set.add(found, access));
        }
        for mount in &response.mounts {
            let access = if mount.read_only { Access::READ } else { Access::READ_WRITE };
            device_nodes(&mount.host_path).iter().flatten().for_each(|found| set.add(found, access));
        }
    }
    extra.iter().for_each(|device| set.add(device, Access::ALL));
    set.rules()
}

/// Whether a `hostPath` volume allows a device that was found at its path.
fn grants(source: &HostPathVolumeSource, found: &HostDevice) -> bool {
    match source.type_.as_deref() {
        Some("CharDevice") => found.kind == HostDeviceKind::Char && found.path == source.path,
        Some("BlockDevice") => found.kind == HostDeviceKind::Block && found.path == source.path,
        None | Some("") => found.path == source.path,
        Some(_) => false,
    }
}

/// Accesses by kind, major and minor number.
#[derive(Default)]
struct RuleSet(BTreeMap<(HostDeviceKind, u32, u32), Access>);

impl RuleSet {
    fn add(&mut self, device: &HostDevice, access: Access) {
        if !access.is_empty() {
            let known = self.0.entry((device.kind, device.major, device.minor)).or_default();
            *known = *known | access;
        }
    }

    fn rules(self) -> Vec<DeviceRule> {
        let rule = |((kind, major, minor), access)| DeviceRule { kind, major, minor: Some(minor), access };
        self.0.into_iter().map(rule).collect()
    }
}
