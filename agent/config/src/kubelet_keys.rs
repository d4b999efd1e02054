//! Every key of the kubelet that is acted on here.

use nodewarden_model::GcSettings;

use crate::eviction::EvictionSettings;
use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::gc;
use crate::node::{self, NodeSettings};
use crate::pods::{self, PodSettings};

/// What the kubelet's keys set.
#[derive(Debug)]
pub struct KubeletSettings {
    pub node: NodeSettings,
    pub pods: PodSettings,
    pub gc: GcSettings,
    pub eviction: EvictionSettings,
    pub gates: FeatureGates,
}

/// Takes every key that is acted on here. A key that the kubelet would act on and that does nothing here is added to
/// `ignored`.
pub fn take(top: &mut Fields<'_>, ignored: &mut Vec<String>) -> KubeletSettings {
    let gates = FeatureGates::take(top, ignored);
    let (node, eviction) = node::take(top, gates, ignored);
    let pods = pods::take(top, gates);
    let gc = gc::take(top, gates);
    KubeletSettings { node, pods, gc, eviction, gates }
}
