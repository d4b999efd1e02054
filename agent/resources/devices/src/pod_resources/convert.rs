//! Converts plain values to the protocol's messages. Pure.

use std::collections::BTreeSet;

use nodewarden_model::DevicesPerNuma;
use nodewarden_proto::podresources::v1 as api;
use nodewarden_proto::podresources::v1alpha1 as alpha;

use super::{AllocatableDevices, ContainerDevices, MemoryBlock, PodDevices};

pub fn pod(pod: PodDevices) -> api::PodResources {
    api::PodResources {
        name: pod.name,
        namespace: pod.namespace,
        containers: pod.containers.into_iter().map(container).collect(),
    }
}

fn container(container: ContainerDevices) -> api::ContainerResources {
    let devices = container.devices.into_iter().flat_map(|(resource, ids)| devices(&resource, ids));
    api::ContainerResources {
        name: container.name,
        devices: devices.collect(),
        cpu_ids: container.cpus.into_iter().map(i64::from).collect(),
        memory: container.memory.into_iter().map(memory).collect(),
        dynamic_resources: Vec::new(),
    }
}

pub fn memory(block: MemoryBlock) -> api::ContainerMemory {
    let node = |node: &u32| api::NumaNode { id: i64::from(*node) };
    let topology = (!block.nodes.is_empty())
        .then(|| api::TopologyInfo { nodes: block.nodes.iter().map(node).collect() });
    api::ContainerMemory { memory_type: block.resource, size: block.size, topology }
}

/// One message per resource, like the kubelet's of that time.
pub fn alpha_pod(pod: PodDevices) -> alpha::PodResources {
    let container = |own: ContainerDevices| {
        let devices = own.devices.into_iter().map(|(resource_name, ids)| {
            let ids: BTreeSet<String> = ids.into_values().flatten().collect();
            alpha::ContainerDevices { resource_name, device_ids: ids.into_iter().collect() }
        });
        alpha::ContainerResources { name: own.name, devices: devices.collect() }
    };
    alpha::PodResources {
        name: pod.name,
        namespace: pod.namespace,
        containers: pod.containers.into_iter().map(container).collect(),
    }
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
