//! Resources of device plugins.

use super::Own;
use crate::metrics::exposition::Exposition;
use crate::metrics::number::Value;
use crate::view::{DeviceResource, DevicesView};

/// Writes the families of devices.
pub(super) fn write(out: &mut Exposition<'_>, devices: &DevicesView) {
    let families: [(Own, fn(&DeviceResource) -> u64); 4] = [
        (Own::DeviceCapacity, |own| own.capacity as u64),
        (Own::DeviceAllocatable, |own| own.allocatable as u64),
        (Own::DeviceAllocated, |own| own.allocated as u64),
        (Own::DevicePluginConnected, |own| u64::from(own.away_since.is_none())),
    ];
    for (family, value) in families {
        let mut writer = out.family(family.desc());
        for own in &devices.resources {
            writer.sample(&[], &[("resource_name", &own.name)], Value::Int(value(own)), &[]);
        }
    }
}
