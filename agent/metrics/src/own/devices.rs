//! Families about resources of device plugins.

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{DeviceResource, DevicesView};

/// Writes the families of devices.
pub(super) fn write(out: &mut Exposition<'_>, devices: &DevicesView) {
    let mut family = |family: Own, value: &dyn Fn(&DeviceResource) -> Option<u64>| {
        let mut writer = out.family(family.desc());
        for own in &devices.resources {
            if let Some(value) = value(own) {
                writer.sample(&[], &[("resource_name", &own.name)], Value::Int(value), &[]);
            }
        }
    };
    family(Own::DeviceCapacity, &|own| Some(own.capacity as u64));
    family(Own::DeviceAllocatable, &|own| own.allocatable.map(|devices| devices as u64));
    family(Own::DeviceAllocated, &|own| Some(own.allocated as u64));
    let connected = |own: &DeviceResource| (!devices.by_kubelet).then(|| u64::from(own.away_since.is_none()));
    family(Own::DevicePluginConnected, &connected);
}
