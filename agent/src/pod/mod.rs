//! What a pod is here: parsed and checked once, from Kubernetes' own types, into values that every other room uses.
//!
//! - [`Quantity`]: exact, with the rounding of apimachinery's `resource.Quantity`.
//! - [`Pod::from_kubernetes`]: every problem at once, each with its field path.
//! - [`Pod::requests`], [`Pod::limits`]: what the scheduler and the kubelet count for the whole pod.

mod container;
mod quantity;
mod resources;

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;

pub use container::{Container, ContainerKind};
pub use quantity::{Quantity, QuantityError};
pub use resources::{ResourceList, Resources};

use crate::view::QosClass;

/// One pod, valid and with the API server's defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// `spec.priority`, else that of the system class named in `spec.priorityClassName`, else 0.
    pub priority: i32,
    pub qos: QosClass,
    /// In the order of the manifest; sidecars among them.
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    /// `spec.overhead`.
    pub overhead: ResourceList,
    /// `spec.resources` after defaulting (KEP-2837); `None` where the pod sets none.
    pub resources: Option<Resources>,
    /// The rest of the manifest, for those who start the pod.
    pub spec: Arc<PodSpec>,
}
