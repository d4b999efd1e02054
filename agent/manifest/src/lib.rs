//! Pods and their manifests: parsed and validated once, from Kubernetes' types into the values that other
//! crates use.
//!
//! - [`Quantity`]: exact, with the rounding of apimachinery's `resource.Quantity`.
//! - [`Pod::from_kubernetes`]: validates a pod and returns all problems, each with its field path.
//! - [`Pod::requests`], [`Pod::limits`]: requests and limits of the whole pod, as in the scheduler and
//!   kubelet.

#![deny(missing_docs)]

mod by_name;
mod container;
mod defaults;
pub mod dns_limits;
mod effective;
mod exclusive;
mod expansion;
mod fields;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod golden;
mod grace;
mod http_get;
pub mod manifest;
mod name_forms;
pub mod names;
mod of_value;
mod pod_kind;
mod ports;
mod priority;
mod probe;
mod problem;
mod qos;
mod quantity;
mod read;
mod resources;
mod signal;
mod spec;
mod sysctl;
#[cfg(test)]
mod tests;
mod validate;
pub mod volume_source;
mod write;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use by_name::ByName;
pub use container::{Container, ContainerKind, EphemeralContainer};
pub use expansion::{Expander, MAX_EXPANDED, TooLong};
pub use fields::{Part, find, parts, subscript};
pub use grace::grace;
pub use http_get::{HttpGetAction, Scheme};
pub use of_value::{FieldError, of_value};
pub use pod_kind::PodKind;
pub(crate) use ports::resolve_port;
pub use priority::SYSTEM_CRITICAL_PRIORITY;
pub use probe::{HandlerKind, HttpGetProbe, ProbeHandler, ProbeKind, ProbeSpec, host_port};
pub use problem::Problem;
pub use qos::QosClass;
pub use quantity::{Quantity, QuantityError, QuantityFault};
pub use resources::{ResourceList, Resources};
pub use signal::signal;
pub use spec::{Decoded, Spec};
pub use sysctl::{default_sysctls, dotted, forbidden_sysctl};
use volume_source::EmptyDir;

/// A valid pod with the API server's defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Where it is from.
    pub kind: PodKind,
    /// `metadata.uid`; empty if the manifest has none (the source of the manifest then sets one).
    pub uid: String,
    /// `metadata.namespace`, `default` if the manifest has none.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.priority`, else that of the system class named in `spec.priorityClassName`, else 0.
    pub priority: i32,
    /// The QoS class that follows from the resources.
    pub qos: QosClass,
    /// In the order of the manifest, including sidecars.
    pub init_containers: Vec<Container>,
    /// In the order of the manifest.
    pub containers: Vec<Container>,
    /// In the order in which they were added; only pods of the API server have any.
    pub ephemeral_containers: Vec<EphemeralContainer>,
    /// `spec.overhead`.
    pub overhead: ResourceList,
    /// `spec.resources` after defaulting (KEP-2837); `None` if the pod sets none.
    pub resources: Option<Resources>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline_seconds: Option<i64>,
    /// The `emptyDir` volumes, in the order of the manifest.
    pub empty_dirs: Box<[EmptyDir]>,
    /// The whole spec of the manifest, for starting the pod; see [`Pod::spec`].
    pub kept_spec: Spec,
}

impl Pod {
    /// Validates a manifest's pod by the API server's rules for identity and resources, and fills in the
    /// defaults. It may not name objects of an API server.
    ///
    /// # Errors
    /// Every problem of the pod, each with the path of its field.
    pub fn from_kubernetes(pod: v1::Pod) -> Result<Self, Vec<Problem>> {
        Self::of_kind(pod, PodKind::Static)
    }

    /// Validates a pod that an API server has, which may name the objects of that server.
    ///
    /// # Errors
    /// Every problem of the pod, each with the path of its field.
    pub fn from_api(pod: v1::Pod) -> Result<Self, Vec<Problem>> {
        Self::of_kind(pod, PodKind::Api)
    }

    /// Validates a pod of this kind and fills in the defaults.
    ///
    /// # Errors
    /// Every problem of the pod, each with the path of its field.
    pub fn of_kind(pod: v1::Pod, kind: PodKind) -> Result<Self, Vec<Problem>> {
        let (mut pod, mut problems) = read::read(pod);
        pod.kind = kind;
        // Held, so that each check does not decode it again.
        let _decoded = pod.spec();
        problems.extend(validate::problems(&pod, kind, &problems));
        if problems.is_empty() { Ok(pod) } else { Err(problems) }
    }

    /// A pod of the API server of which nothing is known but its metadata: it has no containers, and is never
    /// run.
    pub fn of_metadata(metadata: ObjectMeta) -> Self {
        let pod = read::read(v1::Pod { metadata, ..v1::Pod::default() }).0;
        Self { kind: PodKind::Api, ..pod }
    }

    /// The whole spec of the manifest. Decoded for this call unless something else has it: hold it while it
    /// is needed more than once.
    pub fn spec(&self) -> Decoded {
        self.kept_spec.get()
    }

    /// The container of this name, of any kind.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.declared().find(|container| container.name == name)
    }

    /// Every container: init containers with the sidecars among them, regular ones, ephemeral ones.
    pub fn declared(&self) -> impl Iterator<Item = &Container> {
        let ephemeral = self.ephemeral_containers.iter().map(|own| &own.container);
        self.init_containers.iter().chain(&self.containers).chain(ephemeral)
    }

    /// A pod with defaults, of which only the quantities are validated: for comparisons with kubelet
    /// functions, on pods that an API server would refuse.
    ///
    /// # Errors
    /// The invalid quantities.
    #[cfg(any(test, feature = "testing"))]
    pub fn unchecked(pod: v1::Pod) -> Result<Self, Vec<Problem>> {
        let (pod, problems) = read::read(pod);
        if problems.is_empty() { Ok(pod) } else { Err(problems) }
    }
}
