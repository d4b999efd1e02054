//! The keys of the kubelet that have an effect here.

use nodewarden_model::GcSettings;

use crate::eviction::EvictionSettings;
use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::gc;
use crate::kubernetes::{self, KubernetesSettings};
use crate::node::{self, NodeSettings};
use crate::pods::{self, PodSettings};
use crate::server::{self, ServerSettings};

/// The settings made by the kubelet's keys.
#[derive(Debug)]
pub struct KubeletSettings {
    pub node: NodeSettings,
    pub pods: PodSettings,
    pub kubernetes: KubernetesSettings,
    pub server: ServerSettings,
    pub gc: GcSettings,
    pub eviction: EvictionSettings,
    pub gates: FeatureGates,
}

/// Reads all keys that have an effect here. Keys that have an effect only in the kubelet are added to `ignored`.
pub fn take(top: &mut Fields<'_>, ignored: &mut Vec<String>) -> KubeletSettings {
    let gates = FeatureGates::take(top, ignored);
    let (node, eviction) = node::take(top, gates, ignored);
    let pods = pods::take(top, gates);
    let kubernetes = kubernetes::take(top);
    let server = server::take(top);
    let gc = gc::take(top, gates);
    KubeletSettings { node, pods, kubernetes, server, gc, eviction, gates }
}
