//! Slim values of what the API server sends.

use k8s_openapi::api::core::v1;
use nodewarden_pods::objects::{ConfigMap, Secret, Service, ServicePort};

pub(super) fn config_map(map: v1::ConfigMap) -> ConfigMap {
    let binary_data = map.binary_data.into_iter().flatten().map(|(key, data)| (key, data.0)).collect();
    ConfigMap { data: map.data.unwrap_or_default(), binary_data }
}

pub(super) fn secret(secret: v1::Secret) -> Secret {
    let data = secret.data.into_iter().flatten().map(|(key, data)| (key, data.0)).collect();
    Secret { kind: secret.type_.unwrap_or_default(), data }
}

/// `None` for a service without an address of its own (`IsServiceIPSet`).
pub(super) fn service(service: v1::Service) -> Option<Service> {
    let spec = service.spec?;
    let ip = spec.cluster_ip.filter(|ip| !ip.is_empty() && ip != "None")?;
    let port = |port: v1::ServicePort| ServicePort {
        name: port.name.unwrap_or_default(),
        protocol: port.protocol.unwrap_or_default(),
        port: port.port,
    };
    Some(Service {
        namespace: service.metadata.namespace.unwrap_or_default(),
        name: service.metadata.name.unwrap_or_default(),
        ip,
        ports: spec.ports.into_iter().flatten().map(port).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_become_slim_values() {
        let map = json!({"data": {"a": "1"}, "binaryData": {"b": "AP8="}, "immutable": true});
        let map = config_map(serde_json::from_value(map).unwrap());
        assert_eq!((map.data["a"].as_str(), &map.binary_data["b"][..]), ("1", &[0, 255][..]));
        let own = json!({"type": "Opaque", "data": {"k": "djE="}, "unknown": 1});
        let own = secret(serde_json::from_value(own).unwrap());
        assert_eq!((own.kind.as_str(), &own.data["k"][..]), ("Opaque", &b"v1"[..]));
    }

    #[test]
    fn only_services_with_an_address_are_kept() {
        let of = |ip: &str| {
            let object = json!({
                "metadata": {"name": "s", "namespace": "n"},
                "spec": {"clusterIP": ip, "ports": [{"port": 80, "protocol": "TCP", "name": "web"}]},
            });
            service(serde_json::from_value(object).unwrap())
        };
        assert_eq!(of("10.0.0.1").unwrap().ports[0].port, 80);
        assert_eq!((of("None"), of("")), (None, None));
    }
}
