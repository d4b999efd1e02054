//! Pods of this node as `v1.Pod` objects: in the answer to `/pods`, in statuses that are written to the API
//! server, and as mirror pods. Pure.
//!
//! As with a kubelet, a pod of a manifest has the annotations `kubernetes.io/config.hash`, `.seen` and
//! `.source`; only its mirror pod at the API server has `.mirror` too. A pod of the API has `.seen` and
//! `.source`.

mod conditions;
mod containers;
mod status;
#[cfg(test)]
mod tests;
mod transitions;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::List;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodewarden_manifest::{Container, Pod};
use nodewarden_model::{Origin, PodView};

pub use status::{Memory, Shown, shown, status};
pub(crate) use transitions::second;

/// Annotation: the hash of the manifest, which is also the uid of its pod on the node.
pub const HASH: &str = "kubernetes.io/config.hash";
/// Annotation of a mirror pod: the hash of the manifest that it shows.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation: since when the pod is known.
pub const SEEN: &str = "kubernetes.io/config.seen";
/// Annotation: `file` or `api`.
pub const SOURCE: &str = "kubernetes.io/config.source";

/// What a pod's object says about its node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// The node's addresses, the preferred one first; empty if they are not known here.
    pub ips: Vec<IpAddr>,
    /// The name that the container runtime gives itself, if it is known.
    pub runtime: Option<String>,
}

/// The list, in the order of the views.
pub fn list(views: &[Arc<PodView>], node: &NodeFacts) -> List<v1::Pod> {
    List { items: views.iter().map(|view| pod(view, node)).collect(), ..List::default() }
}

/// One pod with its status.
pub fn pod(view: &PodView, node: &NodeFacts) -> v1::Pod {
    let mut pod = without_status(view, node);
    pod.status = Some(status(view, node));
    pod
}

/// One pod without its status.
pub(crate) fn without_status(view: &PodView, node: &NodeFacts) -> v1::Pod {
    let mut pod = view.pod.to_kubernetes();
    let seen = Time(view.started);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(SEEN.into(), view.started.to_string());
    let source = match view.origin {
        Origin::Api(_) | Origin::Http(_) => view.origin.source(),
        Origin::Manifest(_) | Origin::Other(_) => "file",
    };
    annotations.insert(SOURCE.into(), source.into());
    if !view.origin.is_api() {
        annotations.insert(HASH.into(), view.pod.uid.clone());
    }
    pod.metadata.creation_timestamp = Some(seen);
    // A pod that is evicted or preempted is not deleted.
    pod.metadata.deletion_timestamp = view.terminating.filter(|_| !view.is_evicted_or_preempted()).map(Time);
    if let Some(spec) = &mut pod.spec {
        default_spec(spec, &view.pod, &node.name);
    }
    pod
}

/// Fills in fields as the API server does, because clients expect them.
fn default_spec(spec: &mut v1::PodSpec, pod: &Pod, node: &str) {
    spec.node_name.get_or_insert_with(|| node.to_owned());
    spec.priority.get_or_insert(pod.priority);
    spec.restart_policy.get_or_insert_with(|| "Always".into());
    spec.dns_policy.get_or_insert_with(|| "ClusterFirst".into());
    spec.termination_grace_period_seconds.get_or_insert(30);
    let declared: BTreeMap<&str, &Container> =
        pod.init_containers.iter().chain(&pod.containers).map(|c| (c.name.as_str(), c)).collect();
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(declared) = declared.get(container.name.as_str()) {
            let own = container.resources.get_or_insert_default();
            let defaulted = declared.resources.to_kubernetes();
            (own.requests, own.limits) = (defaulted.requests, defaulted.limits);
        }
    }
}
