//! Converts plain values to the protocol's messages. Pure.

use nodewarden_model::DevicesPerNuma;
use nodewarden_proto::podresources::v1 as api;

use super::{AllocatableDevices, ContainerDevices, PodDevices};

pub fn pod(pod: PodDevices) -> api::PodResources {
    api::PodResources {
        name: pod.name,
        namespace: pod.namespace,
        containers: pod.containers.into_iter().map(container).collect(),
    }
}

fn container(container: ContainerDevices) -> api::ContainerResources {
    let devices = container.devices.into_iter().flat_map(|(resource, ids)| devices(&resource, ids));
    api::ContainerResources { name: container.name, devices: devices.collect(), ..Default::default() }
}

pub fn allocatable(of: AllocatableDevices) -> Vec<api::ContainerDevices> {
    devices(&of.resource, of.devices)
}

/// One message per device and NUMA node, like the kubelet's (`containerDevicesFromResourceDeviceInstances`);
/// without topology if the device has no node.
fn devices(resource: &str, devices: DevicesPerNuma) -> Vec<api::ContainerDevices> {
    let message = |node: i64, id: String| api::ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: vec![id],
        topology: (node >= 0).then(|| api::TopologyInfo { nodes: vec![api::NumaNode { id: node }] }),
    };
    devices.into_iter().flat_map(|(node, ids)| ids.into_iter().map(move |id| message(node, id))).collect()
}
