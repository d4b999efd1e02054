//! The one list of all sources of pods.

use tracing::warn;

use super::machine::node_name;
use nodewarden_config::Config;
use nodewarden_pods::source::PodSource;
use nodewarden_pods::source::manifests::ManifestSource;

/// The sources of the node's own pods that the configuration asks for, in the order of their precedence. (The pods
/// of the API server are added where the connection to it is made.)
pub fn sources(config: &Config) -> Vec<Box<dyn PodSource>> {
    let settings = &config.node;
    let mut sources: Vec<Box<dyn PodSource>> = Vec::new();
    match &settings.static_pod_path {
        Some(dir) => {
            let source = ManifestSource::new(dir, &node_name(config), settings.file_check_frequency);
            let in_cluster = config.kubernetes.connects();
            sources.push(Box::new(if in_cluster { source.named_by_node() } else { source }));
        }
        None => warn!("staticPodPath is not set: there are no pods to manage"),
    }
    sources
}
