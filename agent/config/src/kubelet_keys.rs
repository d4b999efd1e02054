//! The keys of the kubelet that have an effect here.

use nodewarden_model::GcSettings;

use crate::endpoint::Endpoint;
use crate::eviction::EvictionSettings;
use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::gc;
use crate::kubernetes::{self, KubernetesSettings};
use crate::logging::{self, LogSettings};
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
    pub logging: LogSettings,
    /// `imageServiceEndpoint`.
    pub image_endpoint: Option<Endpoint>,
}

/// Reads all keys that have an effect here.
pub fn take(top: &mut Fields<'_>) -> KubeletSettings {
    let gates = FeatureGates::take(top);
    let (node, eviction) = node::take(top, gates);
    let pods = pods::take(top, gates);
    let kubernetes = kubernetes::take(top);
    let server = server::take(top);
    let gc = gc::take(top, gates);
    let logging = logging::take(top);
    let image_endpoint = Endpoint::take(top, "imageServiceEndpoint");
    KubeletSettings { node, pods, kubernetes, server, gc, eviction, gates, logging, image_endpoint }
}
