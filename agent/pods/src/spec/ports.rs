//! Mappings of container ports to ports of the node (kubelet `MakePortMappings`).

use k8s_openapi::api::core::v1;
use nodewarden_proto::runtime::v1 as cri;

use nodewarden_manifest::{ContainerKind, Pod};

/// The host ports of containers and sidecars; those of other init containers are ignored.
pub(super) fn mappings(pod: &Pod) -> Vec<cri::PortMapping> {
    let spec = pod.spec();
    let init = spec.init_containers.iter().flatten().zip(&pod.init_containers);
    let sidecars = init.filter(|(_, c)| c.kind == ContainerKind::Sidecar).map(|(manifest, _)| manifest);
    let containers = sidecars.chain(&spec.containers);
    containers.flat_map(|c| c.ports.iter().flatten()).map(mapping).collect()
}

fn mapping(port: &v1::ContainerPort) -> cri::PortMapping {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => cri::Protocol::Udp,
        Some("SCTP") => cri::Protocol::Sctp,
        _ => cri::Protocol::Tcp,
    };
    cri::PortMapping {
        protocol: protocol.into(),
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or(0),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}
