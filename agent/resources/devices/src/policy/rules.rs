//! What gives a pod its devices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::HostPathVolumeSource;
use nodewarden_ebpf_abi::{ANY_MINOR, DEFAULT_DEVICES};
use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;

use super::{Access, DeviceRule};
use nodewarden_manifest::Pod;
use nodewarden_model::{HostDevice, HostDeviceKind};

/// What every container may open: null, zero, full, random, urandom, tty, console, ptmx and pts (OCI runtime
/// specification, "Default Devices").
pub fn defaults() -> impl Iterator<Item = DeviceRule> {
    DEFAULT_DEVICES.into_iter().map(|(major, minor)| DeviceRule {
        kind: HostDeviceKind::Char,
        major,
        minor: (minor != ANY_MINOR).then_some(minor),
        access: Access::ALL,
    })
}

/// What a pod may open beside the defaults, each device once:
///
/// - `hostPath` volumes: of type `CharDevice` and `BlockDevice` what is there of that type; of no type what is a device
///   itself (a directory of devices that is mounted gives none).
/// - what plugins' responses name: devices with the permissions that they name, and mounts of device nodes, or of
///   directories with device nodes in them, read-only where the mount is.
/// - `extra`: devices that come without the plugin saying so.
///
/// `look` tells the device nodes at a host path (links followed; a directory's contents), `None` where nothing is.
pub fn rules(
    pod: &Pod,
    allocated: &[ContainerAllocateResponse],
    extra: &[HostDevice],
    look: impl Fn(&str) -> Option<Vec<HostDevice>>,
) -> Vec<DeviceRule> {
    let mut given = Given::default();
    let volumes = pod.spec.volumes.iter().flatten();
    for source in volumes.filter_map(|volume| volume.host_path.as_ref()) {
        let found = look(&source.path).unwrap_or_default();
        found.iter().filter(|device| gives(source, device)).for_each(|device| given.add(device, Access::ALL));
    }
    for response in allocated {
        for device in &response.devices {
            let access = Access::parse(&device.permissions);
            look(&device.host_path).iter().flatten().for_each(|found| given.add(found, access));
        }
        for mount in &response.mounts {
            let access = if mount.read_only { Access::READ } else { Access::READ_WRITE };
            look(&mount.host_path).iter().flatten().for_each(|found| given.add(found, access));
        }
    }
    extra.iter().for_each(|device| given.add(device, Access::ALL));
    given.rules()
}

/// Whether a `hostPath` volume gives a device that was found at its path.
fn gives(source: &HostPathVolumeSource, found: &HostDevice) -> bool {
    match source.type_.as_deref() {
        Some("CharDevice") => found.kind == HostDeviceKind::Char && found.path == source.path,
        Some("BlockDevice") => found.kind == HostDeviceKind::Block && found.path == source.path,
        None | Some("") => found.path == source.path,
        Some(_) => false,
    }
}

#[derive(Default)]
struct Given(BTreeMap<(HostDeviceKind, u32, u32), Access>);

impl Given {
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
