//! Who a cgroup is in Kubernetes' terms.

use nodewarden_manifest::QosClass;

/// Names of a pod, known only if a container runtime reported them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodNames {
    pub namespace: String,
    pub name: String,
}

/// Names of a container, known only if a container runtime reported them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerNames {
    /// `io.kubernetes.container.name`.
    pub name: String,
    /// Image reference as the runtime gives it.
    pub image: String,
}

/// What a cgroup is. Pod uids are in their dashed form (`8c5e…-…`; static pods' hash has no dashes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The root of the tree.
    Root,
    /// `/kubepods` or `/kubepods.slice`.
    Kubepods,
    /// The Burstable or BestEffort level below kubepods.
    Qos(QosClass),
    /// A pod's own cgroup.
    Pod { uid: String, qos: QosClass, names: Option<PodNames> },
    /// A container in a pod. `runtime` is the prefix found in the path (`cri-containerd`, `crio`, `docker`), or
    /// empty for the cgroupfs driver, whose paths carry none.
    Container {
        pod_uid: String,
        qos: QosClass,
        id: String,
        runtime: String,
        /// The pod sandbox (pause) container: known only from the runtime.
        sandbox: bool,
        pod: Option<PodNames>,
        names: Option<ContainerNames>,
    },
    /// A cgroup that a container made inside itself.
    Nested { pod_uid: String, container_id: String },
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

    /// The container's id for a container and what is nested in it.
    pub fn container_id(&self) -> Option<&str> {
        match self {
            Self::Container { id, .. } => Some(id),
            Self::Nested { container_id, .. } => Some(container_id),
            _ => None,
        }
    }
}
