//! Pods and nodes for tests.

use std::collections::BTreeMap;

use super::{HierarchyFacts, Node};
use nodewarden_config::NodeSettings;
use nodewarden_machine::cgroup::Version;
use nodewarden_machine::cgroup::control::PageSize;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::{Container, Pod};

/// Bytes of a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes of a GiB.
pub const GIB: u64 = 1 << 30;

/// A v2 machine with every controller and file.
pub const V2: HierarchyFacts = HierarchyFacts {
    version: Version::V2,
    pids: true,
    cpuset: true,
    hugetlb: true,
    swap: true,
    cpu_idle: true,
    oom_group: true,
    page_size: 4096,
};

/// A v1 machine with every controller.
pub const V1: HierarchyFacts =
    HierarchyFacts { version: Version::V1, cpu_idle: false, oom_group: false, ..V2 };

/// A machine with 4 CPUs, 16 GiB, 4 GiB of swap, huge pages of 2 MiB and 1 GiB.
pub fn capacity() -> Capacity {
    Capacity {
        cpu_milli: 4000,
        memory_bytes: 16 * GIB,
        swap_bytes: 4 * GIB,
        hugepages: BTreeMap::from([(PageSize(2 * MIB), 0), (PageSize(GIB), 0)]),
        pids: 32_768,
        cpus: String::from("0-3"),
        ephemeral_storage_bytes: None,
    }
}

/// A node whose parts a test changes.
#[derive(Debug)]
pub struct Machine {
    /// The default settings.
    pub settings: NodeSettings,
    /// The machine's resources, as in [`capacity()`].
    pub capacity: Capacity,
    /// What its cgroups support.
    pub facts: HierarchyFacts,
}

impl Machine {
    /// A machine with these cgroups.
    pub fn new(facts: HierarchyFacts) -> Self {
        Self { settings: NodeSettings::default(), capacity: capacity(), facts }
    }

    /// The node, as the functions of this crate need it.
    pub fn node(&self) -> Node<'_> {
        Node { settings: &self.settings, capacity: &self.capacity, facts: &self.facts }
    }
}

/// A pod with this uid and `spec` (YAML, without images).
pub fn pod(uid: &str, spec: &str) -> Pod {
    let mut spec: serde_json::Value = serde_yaml_ng::from_str(spec).expect("YAML");
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["image"] = "i".into();
        }
    }
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": uid, "namespace": "default", "uid": uid },
        "spec": spec,
    });
    Pod::from_kubernetes(serde_json::from_value(pod).expect("a pod")).expect("a valid pod")
}

/// The container or init container with that name.
pub fn container<'a>(pod: &'a Pod, name: &str) -> &'a Container {
    let mut all = pod.init_containers.iter().chain(&pod.containers);
    all.find(|c| c.name == name).expect("the container")
}
