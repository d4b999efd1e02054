//! Converts devices into messages of `nodewarden.v1`.

use nodewarden_proto::nodewarden::v1 as proto;

use super::time;
use nodewarden_model::{DenialCount, DeviceOwner, DeviceResource, DeviceView, DevicesView};

/// The response with all resources and devices.
pub fn list(view: DevicesView) -> proto::ListDevicesResponse {
    let removed = view.removed.into_iter();
    proto::ListDevicesResponse {
        resources: view.resources.into_iter().map(resource).collect(),
        removed: removed
            .map(|(name, at)| proto::RemovedResource { name, removed: Some(time::from_system_time(at)) })
            .collect(),
        problems: view.problems,
        by_kubelet: view.by_kubelet,
        denials: view.denials.into_iter().map(denial).collect(),
    }
}

fn denial(own: DenialCount) -> proto::DeviceDenial {
    let DenialCount { uid, namespace, name, device, audited, denied } = own;
    proto::DeviceDenial { uid, namespace, name, device, audited, denied }
}

/// The resources without their devices.
pub fn summary(view: DevicesView) -> Vec<proto::DeviceResource> {
    let bare = |own: DeviceResource| resource(DeviceResource { devices: Vec::new(), ..own });
    view.resources.into_iter().map(bare).collect()
}

fn resource(own: DeviceResource) -> proto::DeviceResource {
    proto::DeviceResource {
        name: own.name,
        capacity: own.capacity as u64,
        allocatable: own.allocatable.map(|devices| devices as u64),
        allocated: own.allocated as u64,
        away_since: own.away_since.map(time::from_system_time),
        devices: own.devices.into_iter().map(device).collect(),
    }
}

/// The container that has something.
pub fn owner(DeviceOwner { uid, namespace, name, container }: DeviceOwner) -> proto::DeviceOwner {
    proto::DeviceOwner { uid, namespace, name, container }
}

fn device(own: DeviceView) -> proto::Device {
    proto::Device {
        id: own.id,
        health: own.health.to_owned(),
        numa: own.numa,
        owner: own.owner.map(owner),
        nodes: own.nodes,
        problem: own.problem,
    }
}
