//! Host ports of pods (scheduler plugin NodePorts, `HostPortInfo`).

use k8s_openapi::api::core::v1;

use nodewarden_manifest::{ContainerKind, Pod};

/// The wildcard address.
const EVERY: &str = "0.0.0.0";

/// One port of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// Whether both are the same port of the same protocol, at the same address or at the wildcard address.
    pub fn conflicts(&self, other: &Self) -> bool {
        let addresses = [self.address.as_str(), other.address.as_str()];
        (&self.protocol, self.port) == (&other.protocol, other.port)
            && (addresses[0] == addresses[1] || addresses.contains(&EVERY))
    }
}

/// The `hostPort`s of a pod's sidecars and regular containers; with `hostNetwork`, every `containerPort`
/// (`SetDefaults_HostNetworkPods`).
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let spec = pod.spec();
    let on_node = spec.host_network == Some(true);
    let sidecar = |own: &&v1::Container| {
        pod.init_containers.iter().any(|c| c.name == own.name && c.kind == ContainerKind::Sidecar)
    };
    let sidecars = spec.init_containers.iter().flatten().filter(sidecar);
    let ports = sidecars.chain(&spec.containers).flat_map(|own| own.ports.iter().flatten());
    let asked = ports.filter_map(|port| {
        let named = port.host_port.filter(|port| *port > 0);
        let number = named.or_else(|| on_node.then_some(port.container_port))?;
        let or = |text: &Option<String>, default: &str| {
            text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        Some(HostPort {
            address: or(&port.host_ip, EVERY),
            protocol: or(&port.protocol, "TCP"),
            port: number,
        })
    });
    asked.collect()
}
