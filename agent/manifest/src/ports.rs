//! Resolves ports given by number or name.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number of a port given by number or by name of one of the container's ports (pkg/probe
/// `ResolveContainerPort`); `None` if there is no such port, or it is not 1 to 65535.
pub(crate) fn resolve_port(port: &IntOrString, container: &v1::Container) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            // As in the kubelet, digits in quotes are accepted too.
            named.map(|port| port.container_port).or_else(|| name.parse().ok())?
        }
    };
    u16::try_from(number).ok().filter(|number| *number > 0)
}
