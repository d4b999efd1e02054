//! The variables of services (kubelet pkg/kubelet/envvars, `getServiceEnvVarMap`).

use std::collections::BTreeMap;

use crate::objects::{Service, ServicePort};

/// The namespace and the name of the API server's own service, whose variables every pod gets.
const MASTER: (&str, &str) = ("default", "kubernetes");

/// The variables of the services that a pod of this namespace sees: those of its namespace if it has `links`,
/// and the API server's.
pub(super) fn variables(services: &[Service], namespace: &str, links: bool) -> BTreeMap<String, String> {
    let mut seen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services.iter().filter(|service| (&*service.namespace, &*service.name) == MASTER) {
        seen.insert(&service.name, service);
    }
    // One of the pod's namespace with the same name comes first.
    for service in services.iter().filter(|service| links && service.namespace == namespace) {
        seen.insert(&service.name, service);
    }
    seen.into_values().flat_map(of_service).collect()
}

fn of_service(service: &Service) -> Vec<(String, String)> {
    let Some(first) = service.ports.first() else { return Vec::new() };
    let (prefix, ip) = (variable(&service.name), &service.ip);
    let mut all = vec![
        (format!("{prefix}_SERVICE_HOST"), ip.clone()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
    ];
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        all.push((format!("{prefix}_SERVICE_PORT_{}", variable(&port.name)), port.port.to_string()));
    }
    // As Docker named the variables of links.
    all.push((format!("{prefix}_PORT"), url(first, ip)));
    for port in &service.ports {
        let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
        let prefix = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        all.extend([
            (format!("{prefix}_PROTO"), protocol.to_lowercase()),
            (format!("{prefix}_PORT"), port.port.to_string()),
            (format!("{prefix}_ADDR"), ip.clone()),
            (prefix, url(port, ip)),
        ]);
    }
    all
}

fn url(port: &ServicePort, ip: &str) -> String {
    let protocol = if port.protocol.is_empty() { "tcp".to_owned() } else { port.protocol.to_lowercase() };
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    format!("{protocol}://{host}:{}", port.port)
}

fn variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(namespace: &str, name: &str, ip: &str, ports: &[(&str, &str, i32)]) -> Service {
        let port = |(name, protocol, port): &(&str, &str, i32)| ServicePort {
            name: (*name).into(),
            protocol: (*protocol).into(),
            port: *port,
        };
        Service {
            namespace: namespace.into(),
            name: name.into(),
            ip: ip.into(),
            ports: ports.iter().map(port).collect(),
        }
    }

    #[test]
    fn a_service_has_the_variables_of_the_kubelet() {
        let services = [service("ns", "redis-main", "10.0.0.11", &[("p", "TCP", 6379), ("", "UDP", 53)])];
        let lines: Vec<String> = variables(&services, "ns", true)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            lines,
            [
                "REDIS_MAIN_PORT=tcp://10.0.0.11:6379",
                "REDIS_MAIN_PORT_53_UDP=udp://10.0.0.11:53",
                "REDIS_MAIN_PORT_53_UDP_ADDR=10.0.0.11",
                "REDIS_MAIN_PORT_53_UDP_PORT=53",
                "REDIS_MAIN_PORT_53_UDP_PROTO=udp",
                "REDIS_MAIN_PORT_6379_TCP=tcp://10.0.0.11:6379",
                "REDIS_MAIN_PORT_6379_TCP_ADDR=10.0.0.11",
                "REDIS_MAIN_PORT_6379_TCP_PORT=6379",
                "REDIS_MAIN_PORT_6379_TCP_PROTO=tcp",
                "REDIS_MAIN_SERVICE_HOST=10.0.0.11",
                "REDIS_MAIN_SERVICE_PORT=6379",
                "REDIS_MAIN_SERVICE_PORT_P=6379",
            ]
        );
    }

    #[test]
    fn a_pod_sees_the_services_of_its_namespace_and_the_api_servers() {
        let services = [
            service("default", "kubernetes", "10.0.0.1", &[("https", "TCP", 443)]),
            service("default", "other", "10.0.0.2", &[("", "TCP", 1)]),
            service("ns", "own", "fd00::3", &[("", "TCP", 2)]),
            service("shop", "kubernetes", "10.0.0.4", &[("", "TCP", 3)]),
        ];
        let hosts = |namespace: &str, links: bool| {
            let all = variables(&services, namespace, links);
            all.into_iter().filter(|(name, _)| name.ends_with("_HOST")).map(|(_, ip)| ip).collect::<Vec<_>>()
        };
        assert_eq!(hosts("ns", true), ["10.0.0.1", "fd00::3"]);
        assert_eq!(hosts("ns", false), ["10.0.0.1"]);
        assert_eq!(hosts("default", true), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(hosts("shop", true), ["10.0.0.4"]);
        assert_eq!(variables(&services, "ns", true)["OWN_PORT"], "tcp://[fd00::3]:2");
    }
}
