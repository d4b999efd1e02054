//! Why an object cannot be had.

use strum::Display;

/// The kinds of objects that pods name, as the kubelet writes them in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[strum(serialize_all = "lowercase")]
pub enum ObjectKind {
    /// A config map.
    ConfigMap,
    /// A secret.
    Secret,
    /// A service account, of which tokens are made.
    ServiceAccount,
    /// The services of a namespace.
    Service,
    /// A claim of a persistent volume.
    PersistentVolumeClaim,
    /// A persistent volume.
    PersistentVolume,
    /// A runtime class.
    #[strum(serialize = "runtimeclass.node.k8s.io")]
    RuntimeClass,
    /// A node.
    Node,
}

/// Why a pod does not get an object that it names. The texts are the kubelet's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The API server does not have it.
    #[error("{kind} {name:?} not found")]
    NotFound {
        /// Its kind.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// The API server refused or did not answer, and the object was never read.
    #[error("failed to get {kind} {name:?}: {reason}")]
    Unread {
        /// Its kind.
        kind: ObjectKind,
        /// Its name.
        name: String,
        /// What the API server said, or why it did not.
        reason: String,
    },
    /// There is no token of a service account.
    #[error("failed to fetch token: {reason}")]
    Token {
        /// What the API server said, or why it did not.
        reason: String,
    },
    /// A claim that this node cannot provide now; the text says why.
    #[error("persistentvolumeclaim {name:?}: {reason}")]
    Claim {
        /// The claim's name.
        name: String,
        /// Why it cannot be mounted.
        reason: String,
    },
    /// The pod has no API server: it is a manifest's, or the agent has no kubeconfig.
    #[error("{kind} {name:?} needs an API server, and this agent has none")]
    NoApiServer {
        /// Its kind.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
}

impl ObjectError {
    /// The API server is sure that there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}
