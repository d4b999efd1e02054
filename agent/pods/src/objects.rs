//! Objects of the API server that pods name: config maps, secrets, tokens of service accounts, services,
//! claims and runtime classes, as slim values.
//!
//! [`Objects`] is what the node has of them (`nodewarden-kube` implements it). [`PodObjects`] is what one pod
//! needs of them at one moment; its volumes and its containers' environment are functions of it.

mod error;
#[cfg(test)]
mod fixture;
mod gather;
mod named;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use error::{ObjectError, ObjectKind};
pub use gather::{PodObjects, gather, pull_secrets};
pub use named::{NamedObject, named};
pub use values::{BoundVolume, ConfigMap, NodeRequirement, Secret, Service, ServicePort, TokenRequest};

use nodewarden_manifest::Pod;

/// The objects of the API server, as far as the pods of this node name them. They are kept while the API
/// server does not answer.
#[async_trait]
pub trait Objects: fmt::Debug + Send + Sync {
    /// Keeps what the pod names current from now on, and reports its changes by the pod's uid. Called again,
    /// it replaces what the pod named before.
    fn register(&self, pod: &Pod);

    /// The pod with this uid is gone.
    fn forget(&self, uid: &str);

    /// A config map.
    ///
    /// # Errors
    /// It does not exist, or the API server did not say.
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError>;

    /// A secret.
    ///
    /// # Errors
    /// It does not exist, or the API server did not say.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError>;

    /// A token of a service account for a pod: the one that was made before until it is due for renewal, and
    /// also then as long as it is valid and no other can be had.
    ///
    /// # Errors
    /// There is none.
    async fn token(&self, request: &TokenRequest) -> Result<Arc<str>, ObjectError>;

    /// The services with an address that pods of this namespace see: its own, and `kubernetes` of `default`.
    ///
    /// # Errors
    /// They have never been listed.
    async fn services(&self, namespace: &str) -> Result<Vec<Service>, ObjectError>;

    /// What a claim is bound to. `owner`: the uid of the pod for which the claim must have been made.
    ///
    /// # Errors
    /// The claim or its volume does not exist, or it is not bound to something that this node provides.
    async fn bound_volume(
        &self,
        namespace: &str,
        claim: &str,
        owner: Option<&str>,
    ) -> Result<BoundVolume, ObjectError>;

    /// The handler of a runtime class.
    ///
    /// # Errors
    /// The class does not exist, or the API server did not say.
    async fn runtime_handler(&self, class: &str) -> Result<String, ObjectError>;

    /// The labels of this node as the API server has them, for the node affinity of volumes.
    ///
    /// # Errors
    /// The API server did not say.
    async fn node_labels(&self) -> Result<BTreeMap<String, String>, ObjectError>;
}
