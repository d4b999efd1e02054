//! Converts the map of CPUs into messages of `nodewarden.v1`.

use nodewarden_proto::nodewarden::v1 as proto;

use super::device::owner;
use nodewarden_model::{ContainerMemory, CpuMapView, CpuPlace, NodeMemory};

/// The response with all CPUs and NUMA nodes.
pub fn map(view: CpuMapView) -> proto::GetCpuMapResponse {
    proto::GetCpuMapResponse {
        cpu_policy: view.cpu_policy,
        memory_policy: view.memory_policy,
        topology_policy: view.topology_policy,
        cpus: view.cpus.into_iter().map(place).collect(),
        nodes: view.nodes.into_iter().map(node).collect(),
        memory: view.memory.into_iter().map(memory).collect(),
    }
}

fn place(own: CpuPlace) -> proto::CpuPlace {
    let CpuPlace { cpu, core, socket, node, cache, reserved, shared, owners } = own;
    let owners = owners.into_iter().map(owner).collect();
    proto::CpuPlace { cpu, core, socket, node, cache, reserved, shared, owners }
}

fn node(own: NodeMemory) -> proto::NodeMemory {
    let NodeMemory { node, total_bytes, allocatable_bytes } = own;
    proto::NodeMemory { node, total_bytes, allocatable_bytes }
}

fn memory(own: ContainerMemory) -> proto::ContainerMemory {
    let ContainerMemory { owner: of, resource, bytes, nodes } = own;
    proto::ContainerMemory { owner: Some(owner(of)), resource, bytes, nodes }
}
