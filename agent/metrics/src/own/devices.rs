//! Families about resources of device plugins.

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{DeviceResource, DevicesView};

/// Writes the families of devices.
pub(super) fn write(out: &mut Exposition<'_>, devices: &DevicesView) {
    let mut family = |family: Own, value: fn(&DeviceResource) -> u64| {
        let mut writer = out.family(family.desc());
        for own in &devices.resources {
            writer.sample(&[], &[("resource_name", &own.name)], Value::Int(value(own)), &[]);
        }
    };
    family(Own::DeviceCapacity, |own| own.capacity as u64);
    family(Own::DeviceAllocatable, |own| own.allocatable as u64);
    family(Own::DeviceAllocated, |own| own.allocated as u64);
    family(Own::DevicePluginConnected, |own| u64::from(own.away_since.is_none()));
}
