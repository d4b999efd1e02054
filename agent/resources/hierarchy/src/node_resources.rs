//! The node's capacity and allocatable resources for display, as in a node's status. Pure.

use nodewarden_config::NodeSettings;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::names::{CPU, EPHEMERAL_STORAGE, MEMORY, hugepages};
use nodewarden_model::NodeResource;
use nodewarden_qos::allocatable::{Available, allocatable, whole};

/// Every resource that the agent knows, in the kubelet's names. Extended resources of device plugins are not
/// among them: their numbers are those of the plugins.
pub fn node_resources(capacity: &Capacity, settings: &NodeSettings) -> Vec<NodeResource> {
    let pods = u64::from(settings.most_pods(capacity.cpu_milli / 1000));
    let (all, left) = (amounts(whole(capacity), pods), amounts(allocatable(capacity, settings), pods));
    let of = |((name, capacity), (_, allocatable))| NodeResource { name, capacity, allocatable };
    all.into_iter().zip(left).map(of).collect()
}

/// By name: CPU in thousandths, everything else in whole units; the same names for the same capacity.
fn amounts(available: Available, pods: u64) -> Vec<(String, u64)> {
    let mut amounts =
        vec![(CPU.to_owned(), available.cpu_milli), (MEMORY.to_owned(), available.memory_bytes)];
    let storage = available.ephemeral_storage_bytes;
    amounts.extend(storage.map(|bytes| (EPHEMERAL_STORAGE.to_owned(), bytes)));
    for (size, bytes) in available.hugepages {
        amounts.push((hugepages(size.0), bytes));
    }
    amounts.push(("pid".to_owned(), available.pids));
    amounts.push(("pods".to_owned(), pods));
    amounts
}

#[cfg(test)]
mod tests {
    use nodewarden_machine::cgroup::control::PageSize;
    use nodewarden_manifest::Quantity;

    use super::*;

    #[test]
    fn what_is_reserved_is_not_allocatable() {
        let capacity = Capacity {
            cpu_milli: 4000,
            memory_bytes: 8 << 30,
            hugepages: [(PageSize(2 << 20), 1 << 30)].into(),
            pids: 32_768,
            ephemeral_storage_bytes: Some(100 << 30),
            ..Capacity::default()
        };
        let quantity = |text: &str| Quantity::parse(text).unwrap();
        let settings = NodeSettings {
            kube_reserved: [("cpu".to_owned(), quantity("500m")), ("pid".to_owned(), quantity("768"))].into(),
            system_reserved: [("memory".to_owned(), quantity("1Gi"))].into(),
            eviction_hard: [].into(),
            ..NodeSettings::default()
        };
        let shown: Vec<_> = node_resources(&capacity, &settings)
            .into_iter()
            .map(|own| format!("{} {} of {}", own.name, own.allocatable, own.capacity))
            .collect();
        assert_eq!(
            shown,
            [
                "cpu 3500 of 4000".to_owned(),
                // Huge pages that are set aside are no memory for anything else.
                format!("memory {} of {}", 6_u64 << 30, 8_u64 << 30),
                format!("ephemeral-storage {0} of {0}", 100_u64 << 30),
                format!("hugepages-2Mi {0} of {0}", 1 << 30),
                "pid 32000 of 32768".to_owned(),
                "pods 110 of 110".to_owned(),
            ]
        );
        let few = NodeSettings { pods_per_core: Some(10), ..settings.clone() };
        let pods = node_resources(&capacity, &few).pop().unwrap();
        assert_eq!((pods.name.as_str(), pods.allocatable, pods.capacity), ("pods", 40, 40));
        let unknown = Capacity { ephemeral_storage_bytes: None, ..capacity };
        assert!(node_resources(&unknown, &settings).iter().all(|own| own.name != "ephemeral-storage"));
    }
}
