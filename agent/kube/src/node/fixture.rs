//! A node for tests.

use std::collections::BTreeMap;

use nodewarden_config::{KubernetesSettings, Taint, TaintEffect};
use nodewarden_model::NodeResource;

use super::facts::{Image, NodeFacts, Readings, RuntimeFacts, SystemFacts};

/// The facts of `node-1`, registered with a label and a taint.
pub fn facts() -> NodeFacts {
    let system = SystemFacts {
        machine_id: "machine".into(),
        system_uuid: "system".into(),
        boot_id: "boot".into(),
        kernel_version: "6.12".into(),
        os_image: "Debian".into(),
        architecture: "amd64",
    };
    let settings = KubernetesSettings {
        node_labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        register_with_taints: vec![Taint {
            key: "dedicated".into(),
            value: "x".into(),
            effect: TaintEffect::NoSchedule,
        }],
        ..KubernetesSettings::default()
    };
    NodeFacts::new("node-1", &settings, Some(10250), system)
}

/// What is read of a node that is ready.
pub fn readings() -> Readings {
    let resource =
        |name: &str, capacity, allocatable| NodeResource { name: name.into(), capacity, allocatable };
    Readings {
        resources: vec![
            resource("cpu", 2000, 1500),
            resource("memory", 8 << 30, 7 << 30),
            resource("ephemeral-storage", 100 << 30, 90 << 30),
            resource("hugepages-2Mi", 0, 0),
            resource("pid", 32768, 32000),
            resource("pods", 110, 110),
        ],
        devices: BTreeMap::from([("example.com/gpu".to_owned(), (4, 3))]),
        ips: vec!["10.0.0.1".parse().unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into())],
        swap_bytes: 0,
        images: Some(vec![Image { names: vec!["pause".into()], size: 5 }]),
        runtime: RuntimeFacts::Answers {
            name: "containerd".into(),
            version: "1.6.20".into(),
            unmet: Vec::new(),
        },
        ..Readings::default()
    }
}
