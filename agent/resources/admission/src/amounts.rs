//! Amounts of resources: CPU in thousandths, everything else in whole units (bytes, devices, pods).

use nodewarden_config::NodeSettings;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::names::{CPU, EPHEMERAL_STORAGE, MEMORY, hugepages, is_extended};
use nodewarden_manifest::{ByName, ContainerKind, Pod, Quantity};
use nodewarden_qos::allocatable::allocatable;

/// Amounts by resource name: CPU in thousandths, everything else in whole units. A missing resource is 0.
pub type Amounts = ByName<i64>;

/// Name of the number of pods as a resource (`v1.ResourcePods`).
pub const PODS: &str = "pods";

/// What a pod holds: its requests and 1 of [`PODS`].
pub fn wants(pod: &Pod) -> Amounts {
    let requests = pod.requests();
    let positive = requests.iter().filter(|(_, quantity)| quantity.is_positive());
    let mut wants: Amounts = positive.map(|(name, quantity)| (name.clone(), units(name, quantity))).collect();
    wants.insert(PODS.to_owned(), 1);
    wants
}

/// The same after its init containers have finished: devices that only they had are free again.
pub fn wants_initialised(pod: &Pod) -> Amounts {
    let mut wants = wants(pod);
    let lasting = || {
        let sidecars = pod.init_containers.iter().filter(|own| own.kind == ContainerKind::Sidecar);
        sidecars.chain(&pod.containers)
    };
    for (name, amount) in wants.iter_mut().filter(|(name, _)| is_extended(name)) {
        *amount = lasting().filter_map(|own| Some(units(name, own.resources.requests.get(name)?))).sum();
    }
    wants
}

/// What pods can have together: allocatable and `maxPods`, or fewer by `podsPerCore`. Without devices, whose
/// number changes.
pub fn capacity(capacity: &Capacity, settings: &NodeSettings) -> Amounts {
    let left = allocatable(capacity, settings);
    let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let mut all = Amounts::from([
        (CPU.to_owned(), signed(left.cpu_milli)),
        (MEMORY.to_owned(), signed(left.memory_bytes)),
        (PODS.to_owned(), i64::from(settings.most_pods(capacity.cpu_milli / 1000))),
    ]);
    all.extend(left.ephemeral_storage_bytes.map(|bytes| (EPHEMERAL_STORAGE.to_owned(), signed(bytes))));
    for (size, bytes) in &left.hugepages {
        all.insert(hugepages(size.0), signed(*bytes));
    }
    all
}

/// The amount of one resource; 0 if it is missing.
pub fn amount(amounts: &Amounts, resource: &str) -> i64 {
    amounts.get(resource).copied().unwrap_or(0)
}

/// The larger amount of each resource.
pub fn larger(one: &Amounts, other: &Amounts) -> Amounts {
    let mut both = one.clone();
    for (name, amount) in other {
        let own = both.get_or_default(name);
        *own = (*own).max(*amount);
    }
    both
}

fn units(name: &str, quantity: &Quantity) -> i64 {
    if name == CPU { quantity.milli_value() } else { quantity.value() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use nodewarden_machine::cgroup::control::PageSize;

    fn pod(spec: serde_json::Value) -> Pod {
        let manifest = json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec});
        Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap()
    }

    #[test]
    fn requests_in_their_units_and_one_pod() {
        let requests = json!({"cpu": "0.5", "memory": "1Ki", "hugepages-2Mi": "4Mi", "a.b/c": 3, "ephemeral-storage": 0});
        let pod = pod(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}));
        let expected = [("a.b/c", 3), (CPU, 500), ("hugepages-2Mi", 4 << 20), (MEMORY, 1024), (PODS, 1)];
        assert_eq!(wants(&pod), expected.map(|(name, n)| (name.to_owned(), n)).into());
    }

    #[test]
    fn devices_of_init_containers_alone_are_not_kept() {
        let own = |name: &str, count: u32, policy: Option<&str>| json!({"name": name, "restartPolicy": policy, "resources": {"requests": {"a.b/c": count, "cpu": count}}});
        let pod = pod(json!({
            "initContainers": [own("i", 5, None), own("s", 1, Some("Always"))],
            "containers": [own("c", 2, None)],
        }));
        let of = |wants: &Amounts| [amount(wants, "a.b/c"), amount(wants, CPU)];
        assert_eq!(of(&wants(&pod)), [5, 5000]);
        assert_eq!(of(&wants_initialised(&pod)), [3, 5000]);
    }

    #[test]
    fn capacity_is_allocatable_and_max_pods() {
        let machine = Capacity {
            cpu_milli: 4000,
            memory_bytes: 1 << 30,
            hugepages: [(PageSize(2 << 20), 8 << 20), (PageSize(1 << 30), 0)].into(),
            ..Capacity::default()
        };
        let settings = NodeSettings { eviction_hard: BTreeMap::new(), ..NodeSettings::default() };
        let expected = [
            (CPU, 4000),
            ("hugepages-1Gi", 0),
            ("hugepages-2Mi", 8 << 20),
            (MEMORY, (1 << 30) - (8 << 20)),
            (PODS, 110),
        ];
        assert_eq!(capacity(&machine, &settings), expected.map(|(name, n)| (name.to_owned(), n)).into());
        let few = NodeSettings { pods_per_core: Some(5), ..settings };
        assert_eq!(amount(&capacity(&machine, &few), PODS), 20);
    }
}
