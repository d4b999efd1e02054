//! What a cgroup is in Kubernetes' terms: a level, a pod, a container.

use std::sync::Arc;

use nodewarden_manifest::QosClass;

/// Names of a pod, known only if a container runtime reported them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodNames {
    /// `io.kubernetes.pod.namespace`.
    pub namespace: String,
    /// `io.kubernetes.pod.name`.
    pub name: String,
}

/// Names of a container, known only if a container runtime reported them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ContainerNames {
    /// `io.kubernetes.container.name`.
    pub name: String,
    /// Image reference, as the runtime reports it.
    pub image: String,
}

/// What a cgroup is. Pod uids are in their dashed form (`8c5e…-…`; the hash that serves as uid of a static
/// pod has no dashes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The root of the tree.
    Root,
    /// `/kubepods` or `/kubepods.slice`.
    Kubepods,
    /// The Burstable or BestEffort level below kubepods.
    Qos(QosClass),
    /// A pod's own cgroup.
    Pod {
        /// From the cgroup's name.
        uid: String,
        /// From the level that the cgroup is in.
        qos: QosClass,
        /// `None` until the runtime reports them.
        names: Option<Arc<PodNames>>,
    },
    /// A container in a pod.
    Container {
        /// The uid of the pod, from the cgroup's path.
        pod_uid: String,
        /// The pod's QoS class, from the level that the pod's cgroup is in.
        qos: QosClass,
        /// The runtime's id of the container, from the cgroup's name.
        id: String,
        /// The prefix in the path that names the runtime (`cri-containerd`, `crio`, `docker`), or empty for
        /// the cgroupfs driver, whose paths carry none.
        runtime: String,
        /// Whether it is the pod's sandbox (pause) container; known only from the runtime.
        sandbox: bool,
        /// The pod's names; `None` until the runtime reports them.
        pod: Option<Arc<PodNames>>,
        /// The container's names; `None` until the runtime reports them.
        names: Option<Arc<ContainerNames>>,
    },
    /// A cgroup that a container created inside its own.
    Nested {
        /// The uid of the container's pod.
        pod_uid: String,
        /// The id of the container that created it.
        container_id: String,
    },
    /// Anything else: systemd units, sessions, plain Docker containers.
    Other,
}

impl Identity {
    /// The pod's uid for everything from the pod level down.
    pub fn pod_uid(&self) -> Option<&str> {
        match self {
            Self::Pod { uid, .. } => Some(uid),
            Self::Container { pod_uid, .. } | Self::Nested { pod_uid, .. } => Some(pod_uid),
            _ => None,
        }
    }

    /// Whether names are missing that a container runtime could know.
    pub fn lacks_names(&self) -> bool {
        match self {
            Self::Pod { names, .. } => names.is_none(),
            Self::Container { sandbox, pod, names, .. } => pod.is_none() || (!sandbox && names.is_none()),
            _ => false,
        }
    }

    /// The container's id, for a container and the cgroups nested in it.
    pub fn container_id(&self) -> Option<&str> {
        match self {
            Self::Container { id, .. } => Some(id),
            Self::Nested { container_id, .. } => Some(container_id),
            _ => None,
        }
    }
}
