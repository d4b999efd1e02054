//! Ports that the runtime maps to the node's (kubelet `MakePortMappings`).

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use nodewarden_proto::runtime::v1 as cri;

use crate::pod::{ContainerKind, Pod};

/// Those of the containers and sidecars: ordinary init containers serve nobody.
pub(super) fn mappings(pod: &Pod) -> Vec<cri::PortMapping> {
    let init = pod.spec.init_containers.iter().flatten().zip(&pod.init_containers);
    let sidecars = init.filter(|(_, c)| c.kind == ContainerKind::Sidecar).map(|(manifest, _)| manifest);
    let containers = sidecars.chain(&pod.spec.containers);
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

/// A port by number or by its name among the container's ports (pkg/probe `ResolveContainerPort`).
pub(crate) fn resolve(port: &IntOrString, container: &v1::Container) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            // The kubelet takes digits in quotes too.
            named.map(|port| port.container_port).or_else(|| name.parse().ok())?
        }
    };
    u16::try_from(number).ok().filter(|number| *number > 0)
}
