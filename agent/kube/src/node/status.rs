//! The status that the node object should have (pkg/kubelet/nodestatus/setters.go).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, NodeDaemonEndpoints, NodeStatus, NodeSwapStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use nodewarden_manifest::Quantity;
use nodewarden_manifest::names::is_extended;
use nodewarden_model::NodeResource;

use super::addresses::addresses;
use super::conditions::conditions;
use super::facts::{NodeFacts, Readings, RuntimeFacts};
use super::images::images;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, ApiQuantity>;

/// The version of the kubelet whose behaviour and API this agent has; the build is nodewarden's.
pub const KUBELET_VERSION: &str = concat!("v1.35.0+nodewarden.", env!("CARGO_PKG_VERSION"));

/// The status that the node should have. `known` is the one at the API server: what others have set is kept
/// (conditions, extended resources, addresses of a cloud), and transition times of conditions that stay the
/// same.
pub fn desired(facts: &NodeFacts, readings: &Readings, known: &NodeStatus, now: Timestamp) -> NodeStatus {
    let (capacity, allocatable) = resources(readings, known);
    let own = conditions(readings, known.conditions.as_deref().unwrap_or_default(), now);
    let foreign = known.conditions.iter().flatten().filter(|c| own.iter().all(|o| o.type_ != c.type_));
    let endpoint = facts.port.map(|port| DaemonEndpoint { port: port.into() });
    let set_by_cloud = facts.external_cloud && known.addresses.as_ref().is_some_and(|list| !list.is_empty());
    NodeStatus {
        capacity: Some(capacity),
        allocatable: Some(allocatable),
        addresses: match addresses(facts, &readings.ips) {
            Some(own) if !set_by_cloud => Some(own),
            _ => known.addresses.clone(),
        },
        daemon_endpoints: Some(NodeDaemonEndpoints { kubelet_endpoint: endpoint }),
        node_info: Some(node_info(facts, readings, known)),
        images: match &readings.images {
            Some(found) => Some(images(found, facts.max_images)),
            None => known.images.clone(),
        },
        conditions: Some(foreign.cloned().chain(own.iter().cloned()).collect()),
        ..known.clone()
    }
}

fn node_info(facts: &NodeFacts, readings: &Readings, known: &NodeStatus) -> NodeSystemInfo {
    let system = facts.system.clone();
    let before = known.node_info.as_ref().map(|info| info.container_runtime_version.clone());
    NodeSystemInfo {
        architecture: system.architecture.to_owned(),
        boot_id: system.boot_id,
        container_runtime_version: match &readings.runtime {
            RuntimeFacts::Answers { name, version, .. } => format!("{name}://{version}"),
            RuntimeFacts::Away(_) => before.unwrap_or_default(),
            RuntimeFacts::None => String::new(),
        },
        kernel_version: system.kernel_version,
        kube_proxy_version: String::new(),
        kubelet_version: KUBELET_VERSION.to_owned(),
        machine_id: system.machine_id,
        operating_system: "linux".to_owned(),
        os_image: system.os_image,
        swap: i64::try_from(readings.swap_bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
            .map(|bytes| NodeSwapStatus { capacity: Some(bytes) }),
        system_uuid: system.system_uuid,
    }
}

/// Capacity and allocatable. Extended resources that no plugin here has are kept as they are; their
/// allocatable is their capacity (`MachineInfo` of setters.go). If the machine could not be read, both stay
/// as they are known.
fn resources(readings: &Readings, known: &NodeStatus) -> (Amounts, Amounts) {
    let before = known.capacity.clone().unwrap_or_default();
    if readings.resources.is_empty() {
        return (before, known.allocatable.clone().unwrap_or_default());
    }
    let is_foreign = |name: &String| is_extended(name) && !readings.devices.contains_key(name);
    let foreign: Amounts = before.into_iter().filter(|(name, _)| is_foreign(name)).collect();
    let (mut capacity, mut allocatable) = (foreign.clone(), foreign);
    for resource in readings.resources.iter().filter(|resource| resource.name != "pid") {
        capacity.insert(resource.name.clone(), amount(resource, resource.capacity));
        allocatable.insert(resource.name.clone(), amount(resource, resource.allocatable));
    }
    for (name, (all, healthy)) in &readings.devices {
        capacity.insert(name.clone(), ApiQuantity(all.to_string()));
        allocatable.insert(name.clone(), ApiQuantity(healthy.to_string()));
    }
    (capacity, allocatable)
}

/// An amount in the form in which the API server writes it.
fn amount(resource: &NodeResource, amount: u64) -> ApiQuantity {
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    let quantity = match resource {
        cpu if cpu.name == NodeResource::CPU => Quantity::from_milli(amount),
        bytes if bytes.is_bytes() && amount > 0 => Quantity::from_bytes(amount),
        _ => Quantity::from_whole(amount),
    };
    ApiQuantity(quantity.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, readings};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shown(amounts: &Option<Amounts>) -> Vec<String> {
        amounts.iter().flatten().map(|(name, amount)| format!("{name}={}", amount.0)).collect()
    }

    #[test]
    fn a_new_node() {
        let status = desired(&facts(), &readings(), &NodeStatus::default(), at(1));
        assert_eq!(
            shown(&status.capacity),
            [
                "cpu=2",
                "ephemeral-storage=100Gi",
                "example.com/gpu=4",
                "hugepages-2Mi=0",
                "memory=8Gi",
                "pods=110"
            ]
        );
        assert_eq!(
            shown(&status.allocatable),
            [
                "cpu=1500m",
                "ephemeral-storage=90Gi",
                "example.com/gpu=3",
                "hugepages-2Mi=0",
                "memory=7Gi",
                "pods=110"
            ]
        );
        let info = status.node_info.unwrap();
        assert_eq!(info.container_runtime_version, "containerd://1.6.20");
        assert!(info.kubelet_version.starts_with("v1.35.0+nodewarden."));
        assert_eq!((info.machine_id.as_str(), info.operating_system.as_str()), ("machine", "linux"));
        assert_eq!(status.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port, 10250);
    }

    #[test]
    fn what_others_have_set_stays() {
        let mut known = desired(&facts(), &readings(), &NodeStatus::default(), at(1));
        known.capacity.as_mut().unwrap().insert("example.com/foo".into(), ApiQuantity("7".into()));
        known.capacity.as_mut().unwrap().insert("hugepages-1Gi".into(), ApiQuantity("0".into()));
        let mut network = known.conditions.as_ref().unwrap()[0].clone();
        network.type_ = "NetworkUnavailable".into();
        known.conditions.as_mut().unwrap().push(network);
        let again = desired(&facts(), &readings(), &known, at(9));
        let types: Vec<&str> = again.conditions.iter().flatten().map(|c| c.type_.as_str()).collect();
        assert_eq!(types, ["NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);
        assert_eq!(again.allocatable.as_ref().unwrap()["example.com/foo"].0, "7");
        assert!(!again.capacity.as_ref().unwrap().contains_key("hugepages-1Gi"));
    }

    #[test]
    fn what_could_not_be_read_stays() {
        let known = desired(&facts(), &readings(), &NodeStatus::default(), at(1));
        let unknown = Readings {
            resources: Vec::new(),
            images: None,
            runtime: RuntimeFacts::Away("gone".into()),
            ..readings()
        };
        let again = desired(&facts(), &unknown, &known, at(9));
        assert_eq!(
            (&again.capacity, &again.images, &again.node_info),
            (&known.capacity, &known.images, &known.node_info)
        );
        let ready = again.conditions.unwrap().pop().unwrap();
        assert_eq!(ready.status, "False");
    }
}
