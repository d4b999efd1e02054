//! A node with a temporary state directory, for tests.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::Host;
use super::dns::Resolv;
use crate::paths::PodPaths;
use nodewarden_config::{NodeSettings, PodSettings};
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::Pod;
use nodewarden_qos::Node;

#[derive(Debug)]
pub(crate) struct Fixture {
    pub dir: tempfile::TempDir,
    pub settings: NodeSettings,
    pub capacity: Capacity,
    pub pods: PodSettings,
    pub resolv: Resolv,
    pub host_ips: Vec<IpAddr>,
    pub recursive_read_only: bool,
    state: PathBuf,
}

impl Fixture {
    /// A node with 4 CPUs and 8 GiB; cluster domain `cluster.local` without servers; addresses 192.0.2.1 and
    /// 2001:db8::1.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("pods");
        let pods = PodSettings {
            logs_dir: dir.path().join("logs"),
            cluster_domain: "cluster.local".to_owned(),
            ..PodSettings::default()
        };
        let capacity = Capacity {
            cpu_milli: 4000,
            memory_bytes: 8 << 30,
            swap_bytes: 0,
            hugepages: Default::default(),
            pids: 32_768,
            cpus: String::from("0-3"),
            ephemeral_storage_bytes: Some(100 << 30),
        };
        let resolv = Resolv {
            nameservers: vec!["192.0.2.53".to_owned()],
            searches: vec!["example.org".to_owned()],
            options: vec!["timeout:1".to_owned()],
        };
        let host_ips = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().expect("an address")).to_vec();
        Self {
            dir,
            settings: NodeSettings { eviction_hard: Default::default(), ..NodeSettings::default() },
            capacity,
            pods,
            resolv,
            host_ips,
            recursive_read_only: false,
            state,
        }
    }

    pub fn node(&self) -> Node<'_> {
        Node { settings: &self.settings, capacity: &self.capacity, facts: &nodewarden_qos::fixture::V2 }
    }

    pub fn host(&self) -> Host<'_> {
        Host {
            node: self.node(),
            node_name: "node-1",
            host_ips: &self.host_ips,
            pods: &self.pods,
            resolv: &self.resolv,
            owner: "test",
            state_pods: &self.state,
            seccomp_root: Path::new("/seccomp"),
            recursive_read_only: self.recursive_read_only,
        }
    }

    pub fn paths(&self, pod: &Pod) -> PodPaths {
        self.host().paths(pod)
    }
}

/// A pod `p` of namespace `ns`, uid `u`, with this spec (YAML), without validation.
pub(crate) fn pod(spec: &str) -> Pod {
    let spec: serde_json::Value = serde_yaml_ng::from_str(spec).expect("YAML");
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u",
            "labels": {"app": "web", "tier": "front"}, "annotations": {"note": "a \"b\"\n"},
        },
        "spec": spec,
    });
    Pod::unchecked(serde_json::from_value(pod).expect("a pod")).expect("quantities")
}
