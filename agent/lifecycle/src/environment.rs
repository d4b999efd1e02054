//! Clients, settings and limits that all workers share.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};
use tracing::info;

use crate::faults::Faults;
use crate::pulls::Pulls;
use crate::pulls::verified::Verifier;
use crate::record::store::Store;
use crate::set_aside::SetAside;
use crate::stop_signals::StopSignals;
use nodewarden_admission::Admission;
use nodewarden_config::{Config, EvictionSettings, Mode, NodeSettings, PodSettings};
use nodewarden_cri::{Client, SharedList};
use nodewarden_devices::{Devices, Guards};
use nodewarden_eviction::Pressure;
use nodewarden_gc::Holds;
use nodewarden_hierarchy::PodCgroupStates;
use nodewarden_machine::cgroup::control::GroupFiles;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::Pod;
use nodewarden_model::{Detail, PodRef};
use nodewarden_pods::objects::Objects;
use nodewarden_pods::paths::PodPaths;
use nodewarden_pods::probes::Probes;
use nodewarden_pods::registry::Providers;
use nodewarden_pods::spec::dns::{Resolv, ResolvError};
use nodewarden_pods::spec::{Host, Ownership};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_qos::{HierarchyFacts, Node};
use nodewarden_resource_managers::ResourceManagers;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::blocking;

/// The cgroups of pods by uid, as the hierarchy reports them.
pub type Places = watch::Receiver<Arc<PodCgroupStates>>;

/// What every worker needs and none of them changes: clients, settings, directories and limits.
#[derive(Debug)]
pub struct Environment {
    pub client: Client,
    /// Lists of the runtime that other parts read too.
    pub list: SharedList,
    pub settings: NodeSettings,
    pub pods: PodSettings,
    pub eviction: EvictionSettings,
    pub facts: HierarchyFacts,
    /// What the machine has, as read last.
    pub capacity: watch::Receiver<Arc<Capacity>>,
    /// The cgroups of this machine.
    pub cgroups: Arc<GroupFiles>,
    pub node_name: String,
    /// The node's addresses, the preferred one first. They change while the agent runs.
    pub addresses: watch::Receiver<Vec<IpAddr>>,
    /// Which sandboxes and containers are this agent's.
    pub ownership: Ownership,
    pub store: Arc<Store>,
    /// Pods in whose work the agent panicked.
    pub faults: Arc<Faults>,
    /// Pods' directories.
    pub pods_dir: PathBuf,
    /// Pods' directories that cannot be removed.
    pub set_aside: SetAside,
    pub seccomp_root: PathBuf,
    /// Whether the runtime can mount read-only recursively.
    pub recursive_read_only: AtomicBool,
    pub admission: Admission,
    pub devices: Devices,
    /// CPUs, memory and NUMA nodes of containers.
    pub managers: ResourceManagers,
    /// Writes to the kernel which pod may open which device; `None` where nothing is enforced.
    pub guards: Option<Guards>,
    pub probes: Probes,
    pub journal: Journal,
    /// Objects of the API server that pods name; `None` without an API server.
    pub objects: Option<Arc<dyn Objects>>,
    /// Plugins that have credentials for images.
    pub credential_providers: Option<Providers>,
    /// Where the pods' status is published.
    pub status: PodStatusCache,
    pub places: Places,
    /// Images that containers are about to be made of.
    pub holds: Holds,
    /// Conditions of the node that are true now.
    pub pressure: watch::Receiver<Pressure>,
    /// How many images are pulled, and how often.
    pub pulls: Pulls,
    /// With which credentials images were pulled.
    pub verifier: Arc<Verifier>,
    /// With which signals images ask to be stopped.
    pub stop_signals: StopSignals,
    /// How many pods start at a time: more at once only makes the runtime slower.
    pub starts: Arc<Semaphore>,
    /// How many calls that end something of a pod are under way at a time.
    pub ends: Semaphore,
    /// The kernel reports every process that ends.
    pub ends_reported: bool,
    /// The kernel reports every cgroup that is removed.
    pub removals_reported: bool,
}

/// What of the node may change while the agent runs, at one moment.
#[derive(Debug, Clone, Default)]
pub struct NodeNow {
    /// Its addresses, the preferred one first.
    pub addresses: Vec<IpAddr>,
    /// `resolvConf`, parsed; empty where nothing needs it.
    pub resolv: Resolv,
    /// What the machine has.
    pub capacity: Arc<Capacity>,
}

impl Environment {
    /// What the machine has now.
    pub fn capacity(&self) -> Arc<Capacity> {
        self.capacity.borrow().clone()
    }

    /// What the configuration of sandboxes and containers needs to know of the node.
    pub fn host<'a>(&'a self, now: &'a NodeNow) -> Host<'a> {
        Host {
            node: self.node(&now.capacity),
            node_name: &self.node_name,
            host_ips: &now.addresses,
            pods: &self.pods,
            resolv: &now.resolv,
            owner: self.ownership.owner(),
            state_pods: &self.pods_dir,
            seccomp_root: &self.seccomp_root,
            recursive_read_only: self.recursive_read_only.load(Ordering::Relaxed),
        }
    }

    /// The resources of the node, which has this [`Self::capacity`], and its settings for them.
    pub fn node<'a>(&'a self, capacity: &'a Capacity) -> Node<'a> {
        Node { settings: &self.settings, capacity, facts: &self.facts }
    }

    /// The node's addresses, the preferred one first.
    pub fn host_ips(&self) -> Vec<IpAddr> {
        self.addresses.borrow().clone()
    }

    /// What may change while the agent runs, as it is now, without the resolver.
    pub fn node_now(&self) -> NodeNow {
        NodeNow { addresses: self.host_ips(), resolv: Resolv::default(), capacity: self.capacity() }
    }

    /// The same with the resolver. `resolvConf` is read for every sandbox, as by a kubelet: it may not be
    /// complete yet when the agent starts.
    ///
    /// # Errors
    /// The file cannot be read. As with a kubelet no pod gets a sandbox then, whatever its `dnsPolicy`.
    pub async fn node_with_resolver(&self) -> Result<NodeNow, ResolvError> {
        let mut now = self.node_now();
        if let Some(path) = self.pods.resolv_conf.clone() {
            let file = path.clone();
            let read = blocking::POD_FILES.run(move || Resolv::read(&file)).await;
            let fault = |error| ResolvError::Read { path, source: io::Error::other(error) };
            now.resolv = read.map_err(fault)??;
        }
        Ok(now)
    }

    pub fn paths(&self, pod: &Pod) -> PodPaths {
        PodPaths::new(&self.pods_dir, &self.pods.logs_dir, pod)
    }

    /// Logs and records an event of a pod, or of one of its containers (name and id; the id is empty when
    /// there is none yet).
    pub fn record_event(&self, pod: &Pod, container: Option<(&str, &str)>, reason: &str, message: String) {
        let (container_name, container_id) = container.unwrap_or_default();
        info!(pod = %format_args!("{}/{}", pod.namespace, pod.name), container = container_name, "{reason}: {message}");
        let place = self.places.borrow().get(&pod.uid).map(|place| place.path.clone());
        let pod = PodRef {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            container_id: container_id.to_owned(),
            container_name: container_name.to_owned(),
        };
        let detail = Detail::Pod { reason: reason.to_owned(), message };
        self.journal.append(Timestamp::now(), &*place.unwrap_or_default(), Some(pod), detail);
    }
}

/// The name of the agent with this state directory, among agents that share a runtime. It stays the same when
/// the state is lost.
fn owner(state_dir: &Path) -> String {
    let whole = std::path::absolute(state_dir).unwrap_or_else(|_| state_dir.to_owned());
    let hash = Sha256::digest(whole.as_os_str().as_encoded_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Which sandboxes and containers of the runtime are this agent's. As the node of a cluster it takes over
/// those of the kubelet in whose place it runs, whose name of the node it has claimed by then.
pub fn ownership(config: &Config) -> Ownership {
    let kubelets = config.mode == Mode::Manage && config.kubernetes.connects();
    Ownership::new(owner(&config.state_dir), kubelets)
}
