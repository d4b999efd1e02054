//! What is known of this node, as plain values: what the desired node object is made of.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_config::{KubernetesSettings, Taint};
use nodewarden_model::NodeResource;

/// What does not change while the agent runs.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// The label `kubernetes.io/hostname` and the address of type Hostname: the host name, or the name that
    /// overrides it.
    pub hostname: String,
    /// `registerNode`.
    pub register: bool,
    /// `registerWithTaints`.
    pub taints: Vec<Taint>,
    /// `nodeLabels`.
    pub labels: BTreeMap<String, String>,
    /// `providerID`.
    pub provider_id: Option<String>,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// A cloud controller sets addresses and removes the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`.
    pub external_cloud: bool,
    /// `nodeStatusMaxImages`; `None` for all.
    pub max_images: Option<usize>,
    /// The port of the node's server; `None` without one.
    pub port: Option<u16>,
    /// What the machine says of itself.
    pub system: SystemFacts,
}

impl NodeFacts {
    /// The facts that the settings have.
    pub fn new(name: &str, settings: &KubernetesSettings, port: Option<u16>, system: SystemFacts) -> Self {
        Self {
            name: name.to_owned(),
            hostname: name.to_owned(),
            register: settings.register_node,
            taints: settings.register_with_taints.clone(),
            labels: settings.node_labels.clone(),
            provider_id: settings.provider_id.clone(),
            node_ips: settings.node_ips.clone(),
            external_cloud: settings.external_cloud_provider,
            max_images: settings.status_max_images,
            port,
            system,
        }
    }
}

/// What the machine says of itself (`status.nodeInfo`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemFacts {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The firmware's uuid of the machine.
    pub system_uuid: String,
    /// `/proc/sys/kernel/random/boot_id`: differs between machines and between boots.
    pub boot_id: String,
    /// `uname -r`.
    pub kernel_version: String,
    /// `PRETTY_NAME` of os-release.
    pub os_image: String,
    /// The architecture as Go calls it.
    pub architecture: &'static str,
}

/// What is read of the node each time its status is computed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readings {
    /// Capacity and allocatable of what the machine has; empty if it could not be read.
    pub resources: Vec<NodeResource>,
    /// Number of devices of each extended resource: all, and healthy ones.
    pub devices: BTreeMap<String, (u64, u64)>,
    /// The node's addresses, IPv4 first.
    pub ips: Vec<IpAddr>,
    /// Bytes of swap.
    pub swap_bytes: u64,
    /// Images on the node; `None` if the runtime could not be asked.
    pub images: Option<Vec<Image>>,
    /// The container runtime.
    pub runtime: RuntimeFacts,
    /// The node conditions that are true because something is short.
    pub pressure: Pressures,
    /// Whether the machine is about to shut down.
    pub shutting_down: bool,
}

/// An image of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Digests, then tags.
    pub names: Vec<String>,
    /// Bytes.
    pub size: u64,
}

/// The container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeFacts {
    /// There is none: pods get cgroups and no containers.
    None,
    /// It does not answer, or has not yet; the reason.
    Away(String),
    /// It answers.
    Answers {
        /// Its name and version: `containerd`, `1.6.20`.
        name: String,
        /// Its version.
        version: String,
        /// The conditions that it says are not met.
        unmet: Vec<Unmet>,
    },
}

impl Default for RuntimeFacts {
    fn default() -> Self {
        Self::Away("has not been asked yet".to_owned())
    }
}

/// A condition of the runtime that is not met, or is not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// `RuntimeReady` or `NetworkReady`.
    pub condition: String,
    /// The runtime's reason.
    pub reason: String,
    /// The runtime's message.
    pub message: String,
}

/// Which of the node's conditions are true, and since when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressures {
    /// MemoryPressure.
    pub memory: Option<Timestamp>,
    /// DiskPressure.
    pub disk: Option<Timestamp>,
    /// PIDPressure.
    pub pid: Option<Timestamp>,
}

/// How often what is done about the node object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// `nodeStatusUpdateFrequency`.
    pub update: Duration,
    /// `nodeStatusReportFrequency`.
    pub report: Duration,
}
